"""Libraries that the system has installed, as repositories.

Each makes one target, such as @local_eigen//:eigen. Where the library is missing the target is incompatible, so that `bazel test //...`
skips what depends on it, and a message says what to install. For Eigen (the others alike):
  EIGEN_ROOT       the folder that holds its headers, instead of the usual ones
  GRADSYNC_EIGEN   0 hides it, and the message; 1 makes its absence an error
"""

_USUAL_FOLDERS = ["/usr/local/include", "/usr/include"]

# Whether the library is there is asked again by each build, not only when the repository is made: a package may be installed, or removed,
# while Bazel's server runs.
_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

constraint_setting(name = "presence")

constraint_value(
    name = "missing",
    constraint_setting = ":presence",
)

FOUND = glob(
    ["include/{header}"],
    allow_empty = True,
)

[print("{message}") for _ in [0] if {say} and not FOUND]

cc_library(
    name = "{library}",
    hdrs = glob(
        ["include/**"],
        allow_empty = True,
    ),
    includes = {includes},
    linkopts = {linkopts},
    target_compatible_with = [] if FOUND else [":missing"],
    visibility = ["//visibility:public"],
)
"""

def _folder_with(ctx, folders, header):
    for folder in folders:
        if ctx.path(folder + "/" + header).exists:
            return folder
    return None

def _system_library_impl(ctx):
    upper = ctx.attr.library.upper()
    wish = ctx.os.environ.get("GRADSYNC_" + upper, "")
    root = ctx.os.environ.get(upper + "_ROOT", "").rstrip("/")
    folders = [root] if root else [usual + below for below in ctx.attr.below for usual in _USUAL_FOLDERS]
    folder = _folder_with(ctx, folders, ctx.attr.header)
    missing = "gradsync: no {header} in {folders}. Install it (Debian, Ubuntu: apt-get install {package}), or set {upper}_ROOT to the folder that holds it.".format(
        folders = " or ".join(folders),
        header = ctx.attr.header,
        package = ctx.attr.package,
        upper = upper,
    )
    if not folder and wish == "1":
        fail("%s (GRADSYNC_%s=1 makes this an error.)" % (missing, upper))
    if wish != "0":
        # Where nothing is found, the links dangle until the package is installed.
        for part in ctx.attr.parts:
            ctx.symlink((folder or folders[-1]) + "/" + part, "include/" + part)
    linkopts = ["-l" + name for name in ctx.attr.links]
    if linkopts and root:
        linkopts = ["-L%s/../lib" % root, "-Wl,-rpath,%s/../lib" % root] + linkopts
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", _BUILD.format(
        header = ctx.attr.header,
        includes = repr(["include"] + ["include/" + folder for folder in ctx.attr.includes]),
        library = ctx.attr.library,
        linkopts = repr(linkopts),
        message = "%s What needs it is skipped; GRADSYNC_%s=0 hides this message." % (missing, upper),
        say = wish != "0",
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "below": attr.string_list(default = [""], doc = "Folders below /usr/include to look in, such as /eigen3."),
        "header": attr.string(mandatory = True, doc = "The header whose presence is the library's."),
        "includes": attr.string_list(doc = "Folders below the headers that an include starts from too."),
        "library": attr.string(mandatory = True, doc = "Name of the target."),
        "links": attr.string_list(doc = "What to link with."),
        "package": attr.string(mandatory = True, doc = "The Debian package."),
        "parts": attr.string_list(mandatory = True, doc = "Headers, and folders of headers, that users of the library see."),
    },
    configure = True,
    environ = [
        prefix + name + suffix
        for name in ["CLI11", "DOCTEST", "EIGEN", "JSON", "TORCH", "ZLIB"]
        for prefix, suffix in [("GRADSYNC_", ""), ("", "_ROOT")]
    ],
    local = True,
)

SYSTEM_LIBRARIES = {
    "local_cli11": {
        "header": "CLI/CLI.hpp",
        "library": "cli11",
        "package": "libcli11-dev",
        "parts": ["CLI"],
    },
    "local_doctest": {
        "header": "doctest/doctest.h",
        "library": "doctest",
        "package": "doctest-dev",
        "parts": ["doctest"],
    },
    "local_eigen": {
        "below": ["/eigen3"],
        "header": "Eigen/Core",
        "library": "eigen",
        "package": "libeigen3-dev",
        "parts": ["Eigen"],
    },
    "local_json": {
        "header": "nlohmann/json.hpp",
        "library": "json",
        "package": "nlohmann-json3-dev",
        "parts": ["nlohmann"],
    },
    "local_torch": {
        "header": "torch/csrc/api/include/torch/torch.h",
        "includes": ["torch/csrc/api/include"],
        "library": "torch",
        "links": [
            "torch",
            "torch_cpu",
            "c10",
        ],
        "package": "libtorch-dev",
        "parts": [
            "ATen",
            "c10",
            "torch",
        ],
    },
    "local_zlib": {
        "header": "zlib.h",
        "library": "zlib",
        "links": ["z"],
        "package": "zlib1g-dev",
        "parts": ["zconf.h", "zlib.h"],
    },
}

"""The MPI of this machine, as the repository @local_mpi: the target :mpi, the setting :is_present for select(), and its launcher.

Looked for by its compiler, mpicxx: below MPI_HOME, or on the PATH. Where it is missing :mpi is incompatible, so that `bazel test //...` skips
what depends on it, and a message says why.
  GRADSYNC_MPI   0 hides it, and the message; 1 makes its absence an error; openmpi or mpich takes that one where Debian has installed both
"""

_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")
load(":flag.bzl", "bool_flag")

package(default_visibility = ["//visibility:public"])

bool_flag(
    name = "found",
    build_setting_default = {found},
)

config_setting(
    name = "is_present",
    flag_values = {{":found": "True"}},
)

constraint_setting(name = "presence")

constraint_value(
    name = "missing",
    constraint_setting = ":presence",
)

cc_library(
    name = "mpi",
    hdrs = glob(
        ["include*/**/*.h"],
        allow_empty = True,
    ),
    # The C++ classes that MPI had once, whose headers still come along.
    defines = [
        "MPICH_SKIP_MPICXX=1",
        "OMPI_SKIP_MPICXX=1",
    ],
    includes = {includes},
    linkopts = {linkopts},
    target_compatible_with = {compatible},
)
"""

_FLAG = """\
def _bool_flag_impl(_ctx):
    return []

bool_flag = rule(
    build_setting = config.bool(),
    implementation = _bool_flag_impl,
)
"""

def _find(ctx, wish):
    """The compiler and the launcher of one MPI, or None."""
    home = ctx.os.environ.get("MPI_HOME", "").rstrip("/")
    suffix = "." + wish if wish in ["openmpi", "mpich"] else ""
    found = {}
    for tool in ["mpicxx", "mpirun"]:
        path = ctx.path(home + "/bin/" + tool) if home else ctx.which(tool + suffix)
        if not path or not path.exists:
            return None
        found[tool] = str(path)
    return found

def _local_mpi_impl(ctx):
    wish = ctx.os.environ.get("GRADSYNC_MPI", "")
    found = None if wish == "0" else _find(ctx, wish)

    # What it calls the compiler with. Open MPI and MPICH both know -show.
    words = []
    if found:
        shown = ctx.execute([found["mpicxx"], "-show"])
        words = [word.strip() for word in shown.stdout.split(" ")] if shown.return_code == 0 else []
    folders = [word[2:] for word in words if word.startswith("-I")]
    if not folders and wish != "0":
        text = "gradsync: no mpicxx and mpirun in MPI_HOME or on the PATH. Install one (Debian, Ubuntu: apt-get install openmpi-bin libopenmpi-dev)."
        if wish:
            fail("%s (GRADSYNC_MPI=%s makes this an error.)" % (text, wish))

        # buildifier: disable=print
        print(text + " What needs it is skipped; GRADSYNC_MPI=0 hides this message.")
    for i, folder in enumerate(folders):
        ctx.symlink(folder, "include%d" % i)
    libraries = [word for word in words if word.startswith("-l") and word not in ["-lmpi_cxx", "-lmpicxx", "-lmpichcxx"]]
    paths = [word for word in words if word.startswith("-L") or word.startswith("-Wl,")]
    if ctx.os.environ.get("MPI_HOME"):
        paths += ["-Wl,-rpath," + word[2:] for word in paths if word.startswith("-L")]
    ctx.file("WORKSPACE", "")
    ctx.file("flag.bzl", _FLAG)
    ctx.file("launcher.bzl", "LAUNCHER = %s\n" % repr(found["mpirun"] if folders else ""))
    ctx.file("BUILD", _BUILD.format(
        compatible = [] if folders else [":missing"],
        found = True if folders else False,
        includes = ["include%d" % i for i in range(len(folders))],
        linkopts = repr(paths + libraries),
    ))

local_mpi = repository_rule(
    implementation = _local_mpi_impl,
    configure = True,
    environ = [
        "GRADSYNC_MPI",
        "MPI_HOME",
        "PATH",
    ],
    local = True,
)

"""cuda_library, cuda_binary and cuda_test: rules for .cu files, which the CUDA toolkit of this machine compiles.

Skipped where there is none. What they make goes into the deps of cc_library, cc_binary and cc_test like that of any cc_library.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:cc.bzl", "CcInfo", "cc_common")
load("@local_cuda//:config.bzl", "ARCHITECTURES", "CUDA_VERSION", "NVCC", "PTX_ONLY")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_test")

# nvcc names its scratch files after its process, and in Bazel's sandbox each nvcc is process 2, in a /tmp that all of them share.
_IN_OWN_FOLDER = """\
set -eu
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$@"
"""

_OPTIMIZATION = {
    "dbg": ["-O0", "-g", "-lineinfo"],
    "fastbuild": ["-O0"],
    "opt": ["-O2", "-DNDEBUG"],
}

# nvcc's own parts of the host code are no standard C++, and mention each line of the source twice.
_NOT_FOR_NVCC = ["-Wpedantic"]

def _host_flags(flags):
    """What Bazel tells each compiler, as nvcc wants it: defines, folders and the language for itself, the rest for the host's compiler."""
    ours = []
    for flag in flags:
        if flag.startswith("-std=") or flag[:2] in ["-D", "-I", "-U"]:
            ours.append(flag)
        elif flag == "-Werror":
            ours += ["-Werror", "all-warnings"]
        elif flag[:2] != "-O" and flag not in _NOT_FOR_NVCC:
            ours += ["-Xcompiler", flag.replace(",", "\\,")]
    return ours

def _compile(ctx, compiler, context, source):
    object_file = ctx.actions.declare_file("_objs/%s/%s.pic.o" % (ctx.label.name, source.basename))
    arguments = ctx.actions.args()
    arguments.add_all([NVCC, "-x", "cu", "-c", source.path, "-o", object_file.path, "-ccbin", compiler])
    arguments.add_all(ctx.attr.architectures or ARCHITECTURES)
    arguments.add_all(["--expt-relaxed-constexpr", "--extended-lambda", "-Xcompiler", "-fPIC"])
    arguments.add_all(_OPTIMIZATION[ctx.var["COMPILATION_MODE"]])
    arguments.add_all(_host_flags(ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts))
    arguments.add_all(context.defines, before_each = "-D")
    arguments.add_all(ctx.attr.local_defines, before_each = "-D")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.quote_includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    if hasattr(context, "external_includes"):  # Bazel 5 and later
        arguments.add_all(context.external_includes, before_each = "-isystem")
    arguments.add_all(ctx.attr.copts)
    ctx.actions.run_shell(
        command = "# CUDA %s: another toolkit is another action\n" % CUDA_VERSION + _IN_OWN_FOLDER,
        arguments = [arguments],
        inputs = depset([source], transitive = [context.headers]),
        outputs = [object_file],
        use_default_shell_env = True,
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s" % source.short_path,
    )
    return object_file

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiler = cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-compile")
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path]),
    ))
    below = [dep[CcInfo] for dep in ctx.attr.deps]
    context = cc_common.merge_cc_infos(cc_infos = [own] + below).compilation_context
    objects = depset([_compile(ctx, compiler, context, source) for source in ctx.files.srcs])
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(objects = objects, pic_objects = objects),
        linking_contexts = [dep.linking_context for dep in below],
        alwayslink = ctx.attr.alwayslink,
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = objects),
        CcInfo(compilation_context = context, linking_context = linking),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "alwayslink": attr.bool(doc = "Keeps objects that nothing refers to, such as those of test cases."),
        "architectures": attr.string_list(doc = "nvcc's -gencode flags, in place of those for all that we build for."),
        "copts": attr.string_list(doc = "Further flags for nvcc."),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".hpp", ".cuh"]),
        "local_defines": attr.string_list(),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, deps = [], **kwargs):
    """Compiles .cu files. It needs CUDA's headers, and whoever links it the runtime: @local_cuda//:cudart.

    Args:
      name: of the target
      deps: cc_library and cuda_library targets
      **kwargs: srcs, hdrs, copts, local_defines, architectures, alwayslink, and what every rule has
    """
    _cuda_library(name = name, deps = deps + ["@local_cuda//:headers"], **kwargs)

def cuda_binary(name, srcs, deps = [], testonly = False, **kwargs):
    """A cc_binary of .cu files, linked to the CUDA runtime."""
    cuda_library(name = name + "_cu", testonly = testonly, srcs = srcs, alwayslink = True, deps = deps)
    cc_binary(name = name, testonly = testonly, deps = [":%s_cu" % name, "@local_cuda//:cudart"], **kwargs)

def cuda_test(name, srcs, deps = [], standin = True, local_defines = [], tags = [], **kwargs):
    """A cc_test of .cu files.

    Args:
      name: of the test
      srcs: .cu files
      deps: what they include. If standin, none of it may bring the CUDA runtime along: //:cuda_headers, not //:cuda
      standin: whether it runs here, on the stand-in for the CUDA runtime. If not it is linked to the real one, has the tag gpu,
        and says so and passes where there is no device
      local_defines: for nvcc
      tags: of the test
      **kwargs: of cc_test
    """
    runtime = ["//tests:cuda_standin" if standin else "//tests:needs_device"]
    cuda_library(
        name = name + "_cu",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        # The stand-in runs none of the machine code.
        architectures = PTX_ONLY if standin else [],
        local_defines = local_defines + (["GRADSYNC_CUDA_STANDIN"] if standin else []),
        deps = deps + runtime,
    )
    cc_test(
        name = name,
        tags = tags + ([] if standin else ["gpu", "nosan"]),
        deps = [":%s_cu" % name],
        **kwargs
    )

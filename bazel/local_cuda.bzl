"""The CUDA toolkit and NCCL of this machine, as repositories: @local_cuda//:headers, :cudart, @local_nccl//:headers, :nccl.

A toolkit is looked for in CUDA_PATH and CUDA_HOME, beside the nvcc on the PATH, and in the usual folders; NCCL in NCCL_HOME, beside CUDA, and where
Debian installs it. Where one is missing its targets are incompatible, so that `bazel test //...` skips what depends on them, and a message says why.
  GRADSYNC_CUDA, GRADSYNC_NCCL   0 hides it, and the message; 1 makes its absence an error
"""

_WANTED = ["80", "90", "100"]  # A100, H100 and H200, B200

_HEAD = """\
load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")

package(default_visibility = ["//visibility:public"])

constraint_setting(name = "presence")

constraint_value(
    name = "missing",
    constraint_setting = ":presence",
)
"""

_MISSING = """
cc_library(
    name = "{name}",
    target_compatible_with = [":missing"],
)
"""

_CUDA = """
cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**", "include/nv/**", "include/cooperative_groups/**"]),
    includes = ["include"],
)

cc_import(
    name = "so",
    shared_library = "lib/{so}",
)

cc_library(
    name = "cudart",
    deps = [":headers", ":so"],
)
"""

_NCCL = """
cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    deps = ["@local_cuda//:headers"],
)

cc_import(
    name = "so",
    shared_library = "lib/libnccl.so.2",
)

cc_library(
    name = "nccl",
    deps = [":headers", ":so", "@local_cuda//:cudart"],
)
"""

def _first(ctx, folders, names):
    for folder in folders:
        for name in names:
            if ctx.path(folder + "/" + name).exists:
                return ctx.path(folder + "/" + name)
    return None

def _library_folders(root):
    return [root + below for below in ["/lib64", "/lib", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu"]] + [
        root + "/targets/%s-linux/lib" % processor
        for processor in ["x86_64", "sbsa"]
    ]

def _named(ctx, variables):
    """The folders that the user names."""
    named = [ctx.os.environ.get(variable, "").rstrip("/") for variable in variables]
    return [folder for folder in named if folder]

def _cuda_folders(ctx):
    nvcc = ctx.which("nvcc")
    return _named(ctx, ["CUDA_PATH", "CUDA_HOME"]) + ([str(nvcc.realpath.dirname.dirname)] if nvcc else []) + [
        "/usr/local/cuda",
        "/opt/cuda",
        "/usr/lib/nvidia-cuda-toolkit",
    ]

def _find_cuda(ctx):
    if ctx.os.environ.get("GRADSYNC_CUDA") == "0":
        return None
    for root in _cuda_folders(ctx):
        so = _first(ctx, _library_folders(root), ["libcudart.so", "libcudart.so.13", "libcudart.so.12"])
        if so and ctx.path(root + "/bin/nvcc").exists and ctx.path(root + "/include/cuda_runtime.h").exists:
            return struct(root = root, nvcc = root + "/bin/nvcc", so = so.realpath)
    return None

def _say_missing(ctx, variable, what, hint):
    wish = ctx.os.environ.get(variable, "")
    if wish == "0":
        return
    if wish == "1":
        fail("gradsync: %s %s (%s=1 makes this an error.)" % (what, hint, variable))

    # buildifier: disable=print
    print("gradsync: %s %s What needs it is skipped; %s=0 hides this message." % (what, hint, variable))

def _write(ctx, targets):
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", _HEAD + targets)

def _short_name(so):
    """libcudart.so.13 for libcudart.so.13.0.96: what a program asks the loader for."""
    name, _, version = so.basename.partition(".so.")
    return name + ".so." + version.partition(".")[0] if version else so.basename

def _architectures(ctx, nvcc):
    """Machine code for those wanted that nvcc knows, and the newest of them as PTX, for what comes after it."""
    known = ctx.execute([nvcc, "--list-gpu-code"]).stdout.split("\n")
    found = [number for number in _WANTED if "sm_" + number in known]
    if not found:
        fail("gradsync: %s knows none of sm_%s." % (nvcc, ", sm_".join(_WANTED)))
    return ["-gencode=arch=compute_%s,code=sm_%s" % (number, number) for number in found] + [_ptx(found[-1])], [_ptx(found[0])]

def _ptx(number):
    return "-gencode=arch=compute_%s,code=compute_%s" % (number, number)

def _config(version, nvcc, architectures, ptx_only):
    return "CUDA_VERSION = %r\nNVCC = %r\nARCHITECTURES = %r\nPTX_ONLY = %r\n" % (version, nvcc, architectures, ptx_only)

# Built into Bazel up to 8. A file can't load or define a name that it uses as the built-in one, so this takes two.
_CC_OF_BAZEL = "NAMES = struct(info = CcInfo, common = cc_common)\n"

_CC_OF_RULES = """\
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

NAMES = struct(info = CcInfo, common = cc_common)
"""

_CC = """\
load(":names.bzl", "NAMES")

CcInfo = NAMES.info
cc_common = NAMES.common
"""

def _local_cuda_impl(ctx):
    ctx.file("names.bzl", _CC_OF_RULES if ctx.attr.cc_of_rules else _CC_OF_BAZEL)
    ctx.file("cc.bzl", _CC)
    cuda = _find_cuda(ctx)
    if not cuda:
        _say_missing(
            ctx,
            "GRADSYNC_CUDA",
            "no CUDA toolkit in %s." % ", ".join(_cuda_folders(ctx)),
            "Install one, or set CUDA_PATH to the folder that holds bin/nvcc.",
        )
        ctx.file("config.bzl", _config("", "", [], []))
        _write(ctx, _MISSING.format(name = "headers") + _MISSING.format(name = "cudart"))
        return
    architectures, ptx_only = _architectures(ctx, cuda.nvcc)
    version = ctx.execute([cuda.nvcc, "--version"]).stdout.partition("release ")[2].partition(",")[0]
    ctx.file("config.bzl", _config(version, cuda.nvcc, architectures, ptx_only))
    so = _short_name(cuda.so)
    ctx.symlink(cuda.root + "/include", "include")
    ctx.symlink(cuda.so, "lib/" + so)
    _write(ctx, _CUDA.format(so = so))

_ENVIRON = ["CUDA_PATH", "CUDA_HOME", "GRADSYNC_CUDA", "PATH"]

local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    attrs = {"cc_of_rules": attr.bool(doc = "Whether CcInfo comes from rules_cc, as with MODULE.bazel.")},
    configure = True,
    environ = _ENVIRON,
    local = True,
)

def _local_nccl_impl(ctx):
    cuda = _find_cuda(ctx)
    folders = _named(ctx, ["NCCL_HOME"]) + ([cuda.root] if cuda else []) + ["/usr/local", "/usr"]
    if cuda and ctx.os.environ.get("GRADSYNC_NCCL") != "0":
        for root in folders:
            so = _first(ctx, _library_folders(root), ["libnccl.so.2", "libnccl.so"])
            if not so or not ctx.path(root + "/include/nccl.h").exists:
                continue
            for header in ["nccl.h", "nccl_device.h", "nccl_device"]:
                if ctx.path(root + "/include/" + header).exists:
                    ctx.symlink(root + "/include/" + header, "include/" + header)
            ctx.symlink(so.realpath, "lib/libnccl.so.2")
            _write(ctx, _NCCL)
            return
    if cuda:  # without CUDA, there is a message already
        _say_missing(
            ctx,
            "GRADSYNC_NCCL",
            "no NCCL in %s." % ", ".join(folders),
            "Install libnccl-dev, or set NCCL_HOME to the folder that holds include/nccl.h.",
        )
    _write(ctx, _MISSING.format(name = "headers") + _MISSING.format(name = "nccl"))

local_nccl = repository_rule(
    implementation = _local_nccl_impl,
    configure = True,
    environ = _ENVIRON + ["NCCL_HOME", "GRADSYNC_NCCL"],
    local = True,
)

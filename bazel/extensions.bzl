"""The system libraries for MODULE.bazel. A file of its own, since Bazel 4 has no module_extension and must not load it. Not run (see MODULE.bazel)."""

load("//bazel:local_cuda.bzl", "local_cuda", "local_nccl")
load("//bazel:local_mpi.bzl", "local_mpi")
load("//bazel:system.bzl", "SYSTEM_LIBRARIES", "system_library")

def _system_impl(_ctx):
    for name, attributes in SYSTEM_LIBRARIES.items():
        system_library(name = name, **attributes)
    local_cuda(name = "local_cuda", cc_of_rules = True)
    local_nccl(name = "local_nccl")
    local_mpi(name = "local_mpi")

system = module_extension(implementation = _system_impl)

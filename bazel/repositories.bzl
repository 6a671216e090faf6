"""All that a WORKSPACE needs to build gradsync: one macro without arguments."""

load("//bazel:local_cuda.bzl", "local_cuda", "local_nccl")
load("//bazel:local_mpi.bzl", "local_mpi")
load("//bazel:stand_ins.bzl", "coverage_tools_stand_in", "rules_cc_stand_in", "rules_java_stand_in", "rules_proto_stand_in")
load("//bazel:system.bzl", "SYSTEM_LIBRARIES", "system_library")

def gradsync_repositories():
    """Declares the system libraries, and what a Bazel without a network lacks. Call it before any other load."""
    declared = native.existing_rules()

    # A released Bazel reports its version and finds its rules by itself. Debian's bazel-bootstrap reports none, and would download these.
    if native.bazel_version == "":
        for name, stand_in in [
            ("rules_cc", rules_cc_stand_in),
            ("rules_java", rules_java_stand_in),
            ("rules_proto", rules_proto_stand_in),
            ("remote_coverage_tools", coverage_tools_stand_in),
        ]:
            if name not in declared:
                stand_in(name = name)

    for name, attributes in SYSTEM_LIBRARIES.items():
        if name not in declared:
            system_library(name = name, **attributes)

    if "local_cuda" not in declared:
        local_cuda(name = "local_cuda")
    if "local_nccl" not in declared:
        local_nccl(name = "local_nccl")
    if "local_mpi" not in declared:
        local_mpi(name = "local_mpi")

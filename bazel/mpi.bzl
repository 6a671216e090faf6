"""mpi_test: a program under the launcher of the MPI that was found."""

load("@local_mpi//:launcher.bzl", "LAUNCHER")
load("@rules_cc//cc:defs.bzl", "cc_binary")

# What a test as root in a container needs, with more ranks than processors; users' commands need nothing of it. The names are those of
# Open MPI 4, then 5.
_SCRIPT = """\
#!/bin/bash
set -eu
# Open MPI makes sockets below TMPDIR, and their paths have to be short.
TMPDIR=$(mktemp -d /tmp/mpi.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# One process may not read another's memory in a container.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# Open MPI keeps its own allocations to the end, many from plugins that are unloaded by then.
export ASAN_OPTIONS="${{ASAN_OPTIONS:-}}:detect_leaks=0"
export GRADSYNC_LAUNCHER="{launcher}" GRADSYNC_PROGRAM="$PWD/{program}"
{command} "$@"
"""

def _mpi_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    program = ctx.executable.program
    command = "{} -np {} {}".format(LAUNCHER, ctx.attr.ranks, program.short_path)
    if ctx.executable.driver:
        command = ctx.executable.driver.short_path
    if ctx.file.within:
        command = " ".join([ctx.file.within.short_path] + ctx.attr.within_args + [command])
    ctx.actions.write(script, _SCRIPT.format(
        command = command,
        launcher = LAUNCHER,
        program = program.short_path,
    ), is_executable = True)
    runfiles = ctx.runfiles([program] + ctx.files.within).merge(ctx.attr.program[DefaultInfo].default_runfiles)
    if ctx.executable.driver:
        runfiles = runfiles.merge(ctx.runfiles([ctx.executable.driver])).merge(ctx.attr.driver[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

_mpi_test = rule(
    implementation = _mpi_test_impl,
    attrs = {
        "driver": attr.label(executable = True, cfg = "target", doc = "Runs the launcher itself, as often as it likes: $GRADSYNC_LAUNCHER -np N $GRADSYNC_PROGRAM."),
        "program": attr.label(executable = True, cfg = "target", mandatory = True),
        "ranks": attr.int(default = 2),
        "within": attr.label(allow_single_file = True, doc = "A script that the driver is given to, with its arguments first."),
        "within_args": attr.string_list(),
    },
    test = True,
)

def mpi_tests(name, srcs, ranks, deps = [], size = "medium", tags = []):
    """A doctest program, as one test for each number of ranks: name_2, name_3, ... Skipped where there is no MPI.

    Args:
      name: of the program
      srcs: its sources
      ranks: how many processes; a list
      deps: besides MPI and the main of such tests
      size: of each test
      tags: of each test
    """
    cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        deps = deps + ["//tests/mpi:main"],
    )
    for n in ranks:
        _mpi_test(
            name = "%s_%d" % (name, n),
            size = size,
            program = name,
            ranks = n,
            tags = tags,
        )

def mpi_driver_test(name, driver, program, within = None, within_args = [], size = "medium", tags = []):
    """A test that starts a program of MPI itself, and looks at how it ends.

    Args:
      name: of the test
      driver: label of a cc_binary, which starts $GRADSYNC_LAUNCHER -np N $GRADSYNC_PROGRAM
      program: label of the program
      within: label of a script that the driver is started by
      within_args: that script's arguments, before the driver
      size: of the test
      tags: of the test
    """
    _mpi_test(
        name = name,
        size = size,
        driver = driver,
        program = program,
        tags = tags,
        within = within,
        within_args = within_args,
    )

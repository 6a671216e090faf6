"""How tests come about: from the files that lie there, so that adding a test is adding a file."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("//bazel:cuda.bzl", "cuda_test")
load("//bazel:rooms.bzl", "PARTIES", "ROOMS")

_EVERY_ROOM = ["//:gradsync"] + ["//:" + room for room in ROOMS]
_DOCTEST = "@local_doctest//:doctest"

# Only looks at the syntax and instantiates: nothing of it would be linked.
_REFUSED = """\
if $(CC) -x c++ -std=c++20 -Iinclude -iquote . -fsyntax-only $(location {source}) > $@.said 2>&1; then
  echo compiled > $@
else
  echo refused > $@
fi
cat $@.said >> $@
"""

# Headers first: what a file includes again inside its namespace is then empty. On Linux, where sanitizers run, none depends on an #if.
_JOINED = """\
grep -h '^#include' $(SRCS) | sort -u > $@
for file in $(SRCS); do
  name=$${file%.*}
  printf 'namespace %s {\\n#include "%s"\\n}\\n' "$${name//[^a-z0-9]/_}" "$$file"
done >> $@
"""

# The same for .cpp files, with what .bazelrc leaves out under a sanitizer. $(SRCS) can't tell their tags.
_JOINED_BY_TAGS = """\
grep -h '^#include' $(SRCS) | sort -u > $@
cat >> $@ << 'END'
%s
END
"""

# For the sake of these three, g++ evaluates every argument that could be a constant: our tests hand each other whole proofs.
_COPTS = ["-Wno-format", "-Wno-nonnull", "-Wno-restrict"]

_BUILDS = {
    "native": ["-O2", "-march=native"],
    "optimized": ["-O2"],
}

def _settings(file, rooms, exceptions):
    """What the two tables of tests/BUILD say about a test file."""
    own = exceptions.get(file[:-len(".cpp")], {})
    room = rooms.get(file.split("/")[0], {})
    return struct(
        builds = own.get("builds", []),
        data = room.get("data", []) + own.get("data", []),
        deps = own.get("deps", room.get("deps", [])),
        joins = not own.get("deps") and not own.get("alone"),
        name = file[:-len(".cpp")].replace("/", "_"),
        room = file.split("/")[0],
        shard_count = own.get("shard_count"),
        size = own.get("size", "small"),
        tags = room.get("tags", []) + own.get("tags", []),
    )

def room_tests(files, rooms, exceptions):
    """The tests of a room are one program, such as core_tests, since most of what compiling takes is the same for all of them.

    Each file stands in a namespace named after it, so names may repeat. A file that can't, since it specialises a template of the library or
    replaces operator new, is `alone`, and so is one that has deps of its own: a test named after it. The others can be had so too, by name:
    core/error_test.cpp as core_error_test. Those of .cu files are joined by party: comm/nccl_…_test.cu in comm_nccl_cu_tests.

    What is tagged nosan is left out under the sanitizers, and nothreads under the thread sanitizer.

    Args:
      files: the sources, <room>/<name>_test.cpp or .cu
      rooms: what holds for all tests of a room: a dict of deps, data and tags
      exceptions: the same for single tests, by file without .cpp or .cu; besides size, shard_count, and
        - of a .cpp file `alone`, and `builds`, which has the test also as <room>_<name>_optimized, and as <room>_<name>_native for this very
          processor: a list of "optimized" and "native"
        - of a .cu file `gpu`, which builds it a second time, as <room>_<name>_gpu, for a real device; and `party`, whose headers it
          includes, if it is not that of its room or name: a file called nccl_… includes those of the party nccl
    """
    for named in exceptions:
        if named + ".cpp" not in files and named + ".cu" not in files:
            fail("there is no tests/%s.cpp or .cu, for which an exception is made" % named)
    _cuda_tests([file for file in files if file.endswith(".cu")], rooms, exceptions)
    joined = {}
    for file in files:
        if file.endswith(".cu"):
            continue
        test = _settings(file, rooms, exceptions)
        if test.joins:
            joined.setdefault(test.room, []).append(file)
        builds = [(test.name, [], ["manual"] if test.joins else [])]
        for build in test.builds:  # about rounding, which no sanitizer looks at
            builds.append((test.name + "_" + build, _BUILDS[build], ["nosan"]))
        for build, copts, tags in builds:
            cc_test(
                name = build,
                size = test.size,
                srcs = [file],
                copts = _COPTS + copts,
                data = test.data,
                shard_count = test.shard_count,
                tags = test.tags + tags,
                deps = [":main", ":shared", _DOCTEST] + _EVERY_ROOM + test.deps,
            )
    for room, of_room in joined.items():
        _joined_test(room, of_room, rooms, exceptions)

def _joined_test(room, files, rooms, exceptions):
    """One program of .cpp files of a room.

    Args:
      room: its name
      files: as for room_tests
      rooms: as for room_tests
      exceptions: as for room_tests
    """
    name = room + "_tests"
    tests = [_settings(file, rooms, exceptions) for file in files]
    lines = []
    for file, test in zip(files, tests):
        unless = ["defined(WITHOUT_%s)" % tag.upper() for tag in ["nosan", "nothreads"] if tag in test.tags]
        lines += ["#if !(%s)" % " || ".join(unless or ["0"]), "namespace %s {" % test.name, '#include "tests/%s"' % file, "}", "#endif"]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = files,
        outs = [name + ".cpp"],
        cmd = _JOINED_BY_TAGS % "\n".join(lines),
    )
    cc_library(
        name = name + "_files",
        testonly = True,
        textual_hdrs = files,
    )
    cc_test(
        name = name,
        size = [size for size in ["small", "medium", "large"] if size in [test.size for test in tests]][-1],
        srcs = [name + ".cpp"],
        copts = _COPTS,
        data = depset([file for test in tests for file in test.data]).to_list(),
        tags = (["cpu:2"] if any(["cpu:2" in test.tags for test in tests]) else []) +
               (["nosan"] if all(["nosan" in test.tags for test in tests]) else []) +
               (["nothreads"] if all(["nosan" in test.tags or "nothreads" in test.tags for test in tests]) else []),
        deps = [":main", ":shared", ":%s_files" % name, _DOCTEST] + _EVERY_ROOM + depset([dep for test in tests for dep in test.deps]).to_list(),
    )

def _party_of(file):
    """The party whose headers a .cu test includes: the longest that its name begins with, or else cuda."""
    name = file.split("/")[1]
    found = ""
    for party, about in PARTIES.items():
        if "declared_by" in about and name.startswith(party) and len(party) > len(found):
            found = party
    return found or "cuda"

def _cuda_tests(files, rooms, exceptions):
    """The tests of .cu files: of each room, those that include the same party are one program, since nvcc compiles each source several times.

    Each file stands in a namespace of its own, as those of _joined_test, unless it is alone. What is built for a real device is a program by
    itself. For those who build them once, cu_tests has all of them in two programs, for two processors: the least there is to compile.

    Args:
      files: as for room_tests, .cu ones
      rooms: as for room_tests
      exceptions: as for room_tests
    """
    programs = {}
    for file in files:
        own = exceptions.get(file[:-len(".cu")], {})
        party = own.get("party", _party_of(file))
        programs.setdefault((file.split("/")[0], party), []).append(file)
        if own.get("gpu"):
            cuda_test(
                name = file[:-len(".cu")].replace("/", "_") + "_gpu",
                size = own.get("size", "small"),
                srcs = [file],
                standin = False,
                tags = own.get("tags", []),
                deps = [":main", ":shared", _DOCTEST, "//:" + party],
            )
    with_nccl = [file for (_, party), joined in programs.items() for file in joined if party == "nccl"]
    named = [
        ("cu_tests_with_nccl", ["nccl"], ["manual"], with_nccl),
        ("cu_tests_without_nccl", ["cuda_peer"], ["manual"], [file for file in files if file not in with_nccl]),
    ]
    native.test_suite(
        name = "cu_tests",
        tags = ["manual"],
        tests = [name for name, _, _, _ in named],
    )
    for (room, party), joined in programs.items():
        named.append(("%s_%s_cu_tests" % (room, party), [party], rooms.get(room, {}).get("tags", []), joined))
    for name, parties, tags, joined in named:
        source = joined[0]
        if len(joined) > 1:
            source = name + ".cu"
            native.genrule(
                name = name + "_source",
                testonly = True,
                srcs = joined,
                outs = [source],
                cmd = _JOINED,
            )
        cc_library(
            name = name + "_files",
            testonly = True,
            textual_hdrs = joined,
        )
        cuda_test(
            name = name,
            size = "large",
            srcs = [source],
            tags = depset(["nosan"] + tags).to_list(),  # ranks mostly wait: for the stand-in, or for a watchdog
            deps = [":main", ":shared", ":%s_files" % name, _DOCTEST] + ["//:%s_headers" % party for party in parties] +
                   ([":nccl_standin"] if "nccl" in parties else []) +
                   depset([dep for file in joined for dep in exceptions.get(file[:-len(".cu")], {}).get("deps", [])]).to_list(),
        )

def refused_tests(files):
    """One test per file: refused/raw_pointer.cpp must not compile, and the message must hold the sentence in its first line."""
    for file in files:
        name = file[:-len(".cpp")].replace("/", "_")
        native.genrule(
            name = name + "_said",
            testonly = True,
            srcs = [file, "//:headers"],
            outs = [name + ".said"],
            cmd = _REFUSED.format(source = file),
            toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
        )
        cc_test(
            name = name,
            size = "small",
            args = ["$(rootpath %s)" % file, "$(rootpath %s.said)" % name],
            data = [file, name + ".said"],
            tags = ["nosan"],
            deps = [":is_refused"],
        )

def stored_output_test(name, program, stored, or_stored = [], **kwargs):
    """Runs a program and compares what it prints with a file, in which … stands for what varies.

    Args:
      name: of the test
      program: label of a cc_binary
      stored: the file's name in this package; where it is missing the test fails
      or_stored: other files, with what the program prints on other machines
      **kwargs: of cc_test
    """
    files = [stored] + or_stored
    cc_test(
        name = name,
        size = "small",
        args = ["$(rootpath %s)" % program] + [native.package_name() + "/" + file for file in files],
        data = [program] + native.glob(files, allow_empty = True),
        deps = ["//tests:runs_as_stored"],
        **kwargs
    )

"""How tests come about: from the files that lie there, so that adding a test is adding a file."""

load("@rules_cc//cc:defs.bzl", "cc_test")
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

def room_tests(files, rooms, exceptions):
    """One test per file: core/error_test.cpp becomes core_error_test.

    Args:
      files: the sources, <room>/<name>_test.cpp or .cu
      rooms: what holds for all tests of a room: a dict of deps, data and tags
      exceptions: the same for single tests, by file without .cpp or .cu; besides size, shard_count, and
        - of a .cpp file `native`, which builds the test a second time, as <room>_<name>_native, for this very processor
        - of a .cu file `gpu`, which builds it a second time, as <room>_<name>_gpu, for a real device; and `party`, whose headers it
          includes, if it is not that of its room or name: a file called nccl_… includes those of the party nccl
    """
    for named in exceptions:
        if named + ".cpp" not in files and named + ".cu" not in files:
            fail("there is no tests/%s.cpp or .cu, for which an exception is made" % named)
    for file in files:
        if file.endswith(".cu"):
            _cuda_room_test(file, rooms.get(file.split("/")[0], {}), exceptions.get(file[:-len(".cu")], {}))
            continue
        own = exceptions.get(file[:-len(".cpp")], {})
        room = rooms.get(file.split("/")[0], {})
        name = file[:-len(".cpp")].replace("/", "_")
        builds = [(name, [], [])]
        if own.get("native"):  # about rounding, which no sanitizer looks at
            builds.append((name + "_native", ["-O2", "-march=native"], ["nosan"]))
        for build, copts, tags in builds:
            cc_test(
                name = build,
                size = own.get("size", "small"),
                srcs = [file],
                copts = copts,
                data = room.get("data", []) + own.get("data", []),
                shard_count = own.get("shard_count"),
                tags = room.get("tags", []) + own.get("tags", []) + tags,
                deps = [":main", ":shared", _DOCTEST] + _EVERY_ROOM + room.get("deps", []) + own.get("deps", []),
            )

def _party_of(file):
    """The party whose headers a .cu test includes: the longest that its name begins with, or else cuda."""
    name = file.split("/")[1]
    found = ""
    for party, about in PARTIES.items():
        if "declared_by" in about and name.startswith(party) and len(party) > len(found):
            found = party
    return found or "cuda"

def _cuda_room_test(file, room, own):
    party = own.get("party", _party_of(file))
    name = file[:-len(".cu")].replace("/", "_")
    for standin in [True, False]:
        if not standin and not own.get("gpu"):
            continue
        cuda_test(
            name = name if standin else name + "_gpu",
            size = own.get("size", "small"),
            srcs = [file],
            data = room.get("data", []) + own.get("data", []),
            shard_count = own.get("shard_count"),
            standin = standin,
            tags = room.get("tags", []) + own.get("tags", []),
            deps = [":main", ":shared", _DOCTEST, "//:%s_headers" % party if standin else "//:" + party] + own.get("deps", []) +
                   ([":nccl_standin"] if standin and party == "nccl" else []),
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

def stored_output_test(name, program, stored, **kwargs):
    """Runs a program and compares what it prints with a file, in which … stands for what varies.

    Args:
      name: of the test
      program: label of a cc_binary
      stored: the file's name in this package; where it is missing the test fails
      **kwargs: of cc_test
    """
    cc_test(
        name = name,
        size = "small",
        args = ["$(rootpath %s)" % program, native.package_name() + "/" + stored],
        data = [program] + native.glob([stored], allow_empty = True),
        deps = ["//tests:runs_as_stored"],
        **kwargs
    )

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0
"""Takes the synchronisation out of the library's own CUDA, NCCL and sync headers, one statement at a time, and sees whether a test fails.

A mutant leaves out one statement that records, waits, frees, launches or groups, or swaps it with its neighbour. All mutants of all headers are
compiled into each test program at once, behind a number. One run without any tells which test cases come to which mutants, and how long they
take. Then each mutant has these cases run alone, the quickest first, until one kills it: it fails, crashes, or hangs (5 s and ten times as
long as usual), twice, and passes in between without the mutant. Which statements are looked at follows from patterns, so new headers take part
by themselves.

    tests/cuda_standin/mutants.py                        all of them; exit status 1 if one survives without a reason in survivors.txt
    tests/cuda_standin/mutants.py --list                 what they are; compiles nothing
    tests/cuda_standin/mutants.py --only cuda/stream     of the headers whose name has this
    tests/cuda_standin/mutants.py --test cuda/           by the tests whose name has this

Needs g++, doctest, and the headers of CUDA (CUDA_PATH, else /usr/local/cuda) and NCCL. The programs are compiled by g++, since launches go through a
door that it can compile too, and linked to the stand-in.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEADERS = ["cuda/*.hpp", "comm/cuda_peer*.hpp", "comm/nccl*.hpp", "sync/*.hpp"]
TESTS = ["cuda/*_test.cu", "comm/*_test.cu", "sync/*_test.cu", "sync/*_test.cpp"]
REASONS = Path("tests/cuda_standin/survivors.txt")

# What a statement calls that makes a mutant of it.
CALLS = {
    "record": r"\bcudaEventRecord\w*\(|[.>](?:record|raise|announce|watch|guard|enqueued|captured_on)\(|\braise\(",
    "wait": r"\bcudaStreamWaitEvent\(|\bcuda(?:Stream|Event|Device)Synchronize\("
            r"|[.>](?:delay|wait_for|release_to|synchronize|await\w*|settle|quiesce|leave|refuse_capture|drain)\("
            r"|\b(?:await\w*|wait_for_\w+)\(",
    "free": r"\bcuda(?:Free\w*|StreamDestroy|EventDestroy|HostUnregister)\(|\bncclMemFree\("
            r"|\bncclComm(?:Destroy|Finalize|Abort|\w*[Dd]eregister)\(|[.>](?:deregister|release|reset|forget|give_back|close\w*)\(|\bderegister\(",
    "group": r"\bncclGroup(?:Start|End)\(|\btogether\.end\(",
    "launch": r"[.>]?\bflush\(|\blaunch\w*\(|\bcudaMem(?:cpy|set)\w*\(|\bnccl(?:AllReduce|ReduceScatter|AllGather|Broadcast|Send|Recv)\("
              r"|[.>](?:put|repeat|gather|unpack|take|close|post|reduce|exchange|broadcast|fold|copy|divide|mean|add)\("
              r"|\bstream(?:_->|_\.|\(\)\.|\.)(?:join|assign)\(|\bcollect\(|(?<![\w:.>])(?:move|share_weight|perform|gather|add|reduce|exchange|copy|join|done_alone)\(",
}

# Where ranks of one host wait for each other before they enqueue anything.
HOST_WAIT = re.compile(r"\bif \(")

NOT_A_CALL = re.compile(
    r"(?:const|auto|static|inline|explicit|constexpr|using|template|throw|struct|class|enum|friend|typename|virtual|operator|typedef|extern"
    r"|switch|do|try|catch|requires|concept|namespace|static_assert|public|private|protected|else)\b"
    r"|#|~|[\w:]+(?:<[^;(]*>)?[&*\s]+\w[\w:]*\s*[({=;,\[]")


def masked(text):
    """The same text with spaces for comments and for what stands in strings, so that positions stay."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def closing(code, at):
    """Behind the parenthesis or brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(code)


def begin_of(code, at):
    """Where the statement around `at` begins, and whether it stands in a block of its own right rather than under an if."""
    depth, i = 0, at - 1
    while i >= 0:
        if code[i] in ")]":
            depth += 1
        elif code[i] in "([":
            depth = max(0, depth - 1)
        elif code[i] in ";{}" and depth == 0:
            break
        i -= 1
    begin, free = i + 1, True
    while True:
        begin += len(code[begin:]) - len(code[begin:].lstrip())
        control = re.match(r"(?:else\s+)?(?:if constexpr|if|for|while)\s*(?=\()|else\b(?!\s+if)|(?:case [\w:]+|default|public|private):(?!:)",
                           code[begin:])
        if not control:
            return begin, free
        behind = begin + control.end()
        begin = closing(code, behind) if code[behind:behind + 1] == "(" and not control.group(0).endswith(":") else behind
        free = False


def in_void_function(code, at):
    """Whether the innermost function around `at` says that it returns nothing. Lambdas don't say it."""
    depth, i = 0, at
    while i > 0:
        i -= 1
        depth += (code[i] == "}") - (code[i] == "{")
        if depth >= 0:
            continue
        depth = 0
        head = re.sub(r"\s*(?:const|noexcept|override|mutable)\s*$", "", code[:i].rstrip())
        if not head.endswith(")"):
            if re.search(r"\b(?:else|do|try)$", head):
                continue
            return False
        inner, j = 0, len(head)
        while True:
            j -= 1
            inner += (head[j] == ")") - (head[j] == "(")
            if inner == 0:
                break
        before = head[:j].rstrip()
        if re.search(r"\b(?:if|if constexpr|for|while|switch|catch)$", before):
            continue
        return re.search(r"\bvoid\s+\w+$", before) is not None
    return False


def statement_at(code, at):
    """(begin, end, free) of the expression statement around `at`, without its semicolon; None if it is something else."""
    begin, free = begin_of(code, at)
    if begin > at or re.search(r"\brequires(?:\s*\([^()]*\))?\s*\{$", code[:begin].rstrip()):  # in the condition of an if, or of a concept
        return None
    end, depth = begin, 0
    while end < len(code) and not (code[end] == ";" and depth == 0):
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0:
            return None
        end += 1
    text = code[begin:end]
    if not text.strip() or NOT_A_CALL.match(text) or text.count("\n") > 12 or (text.startswith("return") and not in_void_function(code, begin)):
        return None
    if "{" in text and not re.search(r"\[[&=\w, ]*\]", text):
        return None
    return begin, end, free


def next_statement(code, end):
    at = end + 1
    while at < len(code) and code[at].isspace():
        at += 1
    found = statement_at(code, at) if at < len(code) and code[at] not in "{}" else None
    return found if found and found[0] == at and found[2] else None


class Mutant:
    def __init__(self, number, header, line, kind, text):
        self.number, self.header, self.line, self.kind, self.text = number, header, line, kind, " ".join(text.split())

    def __str__(self):
        return f"{self.header}:{self.line}: {self.kind}: {self.text}"

    def key(self):
        return f"{self.header} | {self.kind} | {self.text}"


def find_statements(code):
    found = {}
    for kind, pattern in CALLS.items():
        for match in re.finditer(pattern, code):
            statement = statement_at(code, match.start() + 1)
            if statement:
                found.setdefault(statement, kind)
    for match in HOST_WAIT.finditer(code):
        end = closing(code, match.end() - 1)
        if re.search(r"\bpeers_\.(?:posted|passed)\(", code[match.start():end]) and code[end:].lstrip().startswith("return false;"):
            before = code[:match.start()].rstrip()
            found[(match.start(), code.index(";", end), before.endswith((";", "{", "}")))] = "host's wait"
    inner = lambda s: any(s != o and o[0] <= s[0] and s[1] <= o[1] for o in found)
    return sorted((s, kind) for s, kind in found.items() if not inner(s))


def chains_of(code, statements):
    """Statements that follow each other, each with the one behind it, which may be of any kind."""
    kinds, chains, used = dict(statements), [], set()
    returns = lambda s: code[s[0]:s[1]].startswith(("return", "if ("))
    for statement, _ in statements:
        if statement in used:
            continue
        chain = [statement]
        while statement[2] and not returns(statement):
            behind = next_statement(code, chain[-1][1])
            if not behind or (chain[-1] not in kinds and behind not in kinds) or returns(behind):
                break
            chain.append(behind)
        used.update(chain)
        chains.append([(s, kinds.get(s)) for s in chain])
    return chains


def mutate(header, text, first):
    """The header with all its mutants behind the number, and a list of them."""
    code, mutants, edits = masked(text), [], []
    line = lambda at: text.count("\n", 0, at) + 1
    for chain in chains_of(code, find_statements(code)):
        words = [text[s[0]:s[1]] for s, _ in chain]
        plain, swapped = [], []
        for (s, kind), word in zip(chain, words):
            if kind:
                mutants.append(Mutant(first + len(mutants), header, line(s[0]), f"without {kind}", word))
                number = mutants[-1].number
                plain.append(f"if (gradsync_mutant({number})) return; {word};" if word.startswith("return") else f"if (!gradsync_mutant({number})) {word};")
            else:
                plain.append(f"{word};")
        for i in range(len(chain) - 1):
            if chain[i][1] or chain[i + 1][1]:
                mutants.append(Mutant(first + len(mutants), header, line(chain[i][0][0]), "swapped", f"{words[i]}; {words[i + 1]}"))
                other = words[:i] + [words[i + 1], words[i]] + words[i + 2:]
                swapped.append(f"if (gradsync_mutant({mutants[-1].number})) {{ {'; '.join(other)}; }} else ")
        edits.append((chain[0][0][0], chain[-1][0][1] + 1, "{ " + "".join(swapped) + "{ " + " ".join(plain) + " } }"))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text.replace("#pragma once", "#pragma once\nbool gradsync_mutant(int number);", 1), mutants


def included_by(test):
    """The library's and the tests' headers that a test sees."""
    seen, left = set(), [test]
    while left:
        for name in re.findall(r'#include [<"](gradsync/[^>"]+|tests/[^>"]+)[>"]', left.pop().read_text()):
            path = Path("include") / name if name.startswith("gradsync/") else Path(name)
            if path not in seen and path.exists():
                seen.add(path)
                left.append(path)
    return seen


# Chooses the mutant, ends the program at the first failure, before other ranks are waited for, and says which test case comes to which mutants.
MAIN = r"""
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

static std::atomic<bool> reached[100000];

bool gradsync_mutant(int number) {
  static const int chosen = std::getenv("GRADSYNC_MUTANT") ? std::atoi(std::getenv("GRADSYNC_MUTANT")) : 0;
  reached[number].store(true, std::memory_order_relaxed);
  return number == chosen;
}

namespace {

struct mutants : doctest::IReporter {
  explicit mutants(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& now) override {
    for (auto& one : reached) one = false;
    name = now.m_name;
    began = std::chrono::steady_clock::now();
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    if (!notes) return;
    std::fprintf(notes, "%s\t%f\t", name, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    for (auto& one : reached)
      if (one) std::fprintf(notes, "%d ", static_cast<int>(&one - reached));
    std::fputs("\n", notes);
    std::fflush(notes);
  }
  void log_assert(const doctest::AssertData& what) override {
    if (what.m_failed) std::_Exit(1);
  }
  void test_case_exception(const doctest::TestCaseException&) override { std::_Exit(1); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

  std::FILE* notes = std::getenv("GRADSYNC_NOTES") ? std::fopen(std::getenv("GRADSYNC_NOTES"), "w") : nullptr;
  const char* name = "";
  std::chrono::steady_clock::time_point began;
};

REGISTER_LISTENER("mutants", 2, mutants);

}  // namespace
"""


class Case:
    """A test case: how long it takes without any mutant, and the numbers of the mutants that it comes to."""

    def __init__(self, test, note):
        self.test = test
        self.name, seconds, numbers = note.split("\t")
        self.seconds, self.numbers = float(seconds), {int(n) for n in numbers.split()}

    def __str__(self):
        return f'{self.test}, "{self.name}"'


class Programs:
    """Compiles the tests against the mutated headers, and runs them."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        cuda = os.environ.get("CUDA_PATH") or "/usr/local/cuda"
        nccl = os.environ.get("NCCL_HOME") or cuda
        self.flags = ["-std=c++20", "-O0", "-w", f"-I{folder}/include", "-Iinclude", "-I.", "-isystem", f"{cuda}/include",
                      "-isystem", f"{nccl}/include", "-DGRADSYNC_CUDA_STANDIN"]

    def compile(self, source, name, sees):
        """The object, and whether it had to be made since it was older than what the source sees."""
        target = self.folder / f"{name}.o"
        if target.exists() and target.stat().st_mtime > max(path.stat().st_mtime for path in {source, *sees}):
            return str(target), False
        done = subprocess.run(["g++", *self.flags, "-x", "c++", "-c", str(source), "-o", str(target)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{source} does not compile with its mutants:\n{done.stderr[:6000]}")
        return str(target), True

    def build(self, sees):
        """`sees`: the headers that each test sees."""
        main = self.folder / "main.cpp"
        write_if_new(main, MAIN)
        standin = sorted(Path("tests/cuda_standin").glob("*.?pp"))
        common = [s for s in standin if s.suffix == ".cpp"] + [Path("tests/doctest_main.cpp"), main]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            common = [pool.submit(self.compile, s, f"common_{s.stem}", standin) for s in common]
            own = {t: pool.submit(self.compile, t, self.program(t).name, paths) for t, paths in sees.items()}
            common = [c.result() for c in common]
            for test, made in own.items():
                made, new = made.result()
                # Kernels that only a GPU runs refer to blockIdx and its like.
                if new or any(c[1] for c in common) or not self.program(test).exists():
                    subprocess.run(["g++", made, *(c[0] for c in common), "-o", str(self.program(test)), "-pthread", "-no-pie",
                                    "-Wl,--unresolved-symbols=ignore-all"], check=True)

    def program(self, test):
        return (self.folder / "_".join(test.with_suffix("").parts)).absolute()

    def start(self, command, limit, **environment):
        """"passed" | "failed" | "hung" """
        try:
            done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit)
            return "passed" if done.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "hung"

    def cases(self, test):
        """Runs all of a test without any mutant: the verdict, and its cases."""
        notes = self.program(test).with_suffix(".notes")
        verdict = self.start([str(self.program(test))], 600, GRADSYNC_NOTES=str(notes))
        return verdict, [Case(test, line) for line in notes.read_text().splitlines()] if notes.exists() else []

    def run(self, case, number):
        name = re.sub(r"[,\\]", "?", case.name)  # doctest's wildcard, for what has a meaning to it
        return self.start([str(self.program(case.test)), f"--test-case={name}"], 5 + 10 * case.seconds, GRADSYNC_MUTANT=str(number))


def write_if_new(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def reasons():
    lines = REASONS.read_text().splitlines() if REASONS.exists() else []
    found = {}
    for text in lines:
        if text and not text.startswith("#"):
            *key, reason = text.split(" | ")
            found[" | ".join(key)] = reason
    return found


def judge(programs, mutant, cases):
    """The first test case that kills it, and how; None if all pass. It has to fail twice, and to pass in between without the mutant: what a
    busy machine does to it says nothing."""
    for case in cases:
        if programs.run(case, mutant.number) != "passed" and programs.run(case, 0) == "passed":
            if (verdict := programs.run(case, mutant.number)) != "passed":
                return f"{case}: {verdict}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--test", default="")
    parser.add_argument("--folder", help="keeps the programs here, where only what has changed is compiled again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once; twice as many tests, which mostly wait")
    wish = parser.parse_args()
    os.chdir(Path(__file__).parent.parent.parent)

    headers = sorted(path for pattern in HEADERS for path in Path("include/gradsync").glob(pattern))
    mutated, mutants = {}, []
    for number, path in enumerate(headers):
        name = str(path.relative_to("include"))
        text, own = mutate(name, path.read_text(), 1 + 1000 * number)  # so that a change of one header leaves the others alone
        if own:
            mutated[path] = text
        if wish.only in name.removeprefix("gradsync/"):
            mutants += own
    if wish.list:
        print("\n".join(map(str, mutants)), f"{len(mutants)} mutants", sep="\n")
        return 0

    folder = Path(wish.folder or tempfile.mkdtemp(prefix="mutants."))
    for path in folder.glob("include/**/*.hpp"):
        if path.relative_to(folder) not in mutated:
            path.unlink()
    for path, text in mutated.items():
        write_if_new(folder / path, text)
    began, touched = time.monotonic(), {Path("include") / m.header for m in mutants}
    sees = {}
    for test in sorted(path for pattern in TESTS for path in Path("tests").glob(pattern)):
        seen = included_by(test)
        if wish.test in str(test) and seen & touched:
            sees[test] = {folder / path if path in mutated else path for path in seen}
    programs = Programs(folder, wish.jobs)
    programs.build(sees)
    print(f"{len(sees)} tests compiled in {time.monotonic() - began:.0f} s", flush=True)

    cases, broken = [], 0
    with concurrent.futures.ThreadPoolExecutor(wish.jobs) as pool:
        for test, (verdict, own) in zip(sees, pool.map(programs.cases, sees)):
            print(f"{test}: {verdict} without any mutant, {sum(case.seconds for case in own):.1f} s", flush=True)
            broken += verdict != "passed"
            cases += own if verdict == "passed" else []
    cases.sort(key=lambda case: case.seconds)

    known, survived, unexplained = reasons(), 0, 0
    with concurrent.futures.ThreadPoolExecutor(2 * wish.jobs) as pool:
        verdicts = [(m, pool.submit(judge, programs, m, [case for case in cases if m.number in case.numbers])) for m in mutants]
        for mutant, verdict in verdicts:
            killed = verdict.result()
            reason = None if killed else known.pop(mutant.key(), None)
            survived += killed is None
            unexplained += killed is None and reason is None
            print("killed  " if killed else "SURVIVED", mutant, f"[{killed or reason or 'no reason is given'}]", flush=True)
    if not wish.only:
        for key in known:
            print("no such survivor:", key)
    print(f"{len(mutants)} mutants, {len(mutants) - survived} killed, {survived} survived, {unexplained} of them without a reason; "
          f"{time.monotonic() - began:.0f} s")
    if not wish.folder:
        shutil.rmtree(folder)
    return 1 if unexplained or broken else 0


if __name__ == "__main__":
    sys.exit(main())

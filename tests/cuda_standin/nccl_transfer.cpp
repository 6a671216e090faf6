// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// How operations go on: arrival on their stream, the reading of inputs, the writing of outputs.

#include <algorithm>
#include <cstring>

#include "tests/cuda_standin/nccl_model.hpp"
#include "tests/cuda_standin/runtime.hpp"

namespace standin::nccl {

namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

template <class F>
void with_type(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclInt8: return f(std::int8_t{});
    case ncclUint8: return f(std::uint8_t{});
    case ncclInt32: return f(std::int32_t{});
    case ncclUint32: return f(std::uint32_t{});
    case ncclInt64: return f(std::int64_t{});
    case ncclUint64: return f(std::uint64_t{});
    case ncclFloat32: return f(float{});
    case ncclFloat64: return f(double{});
    default: return;  // such a sum is refused when it is called
  }
}

// The ring: rank c + 1 begins chunk c, and each rank adds its own to what it is given. ring.h of NCCL, and so in another order than a tree.
bytes ring_sum(const meeting& m, ncclDataType_t type, ncclRedOp_t op, std::size_t count) {
  const std::size_t size = m.inputs.size(), chunk = (count + size - 1) / size;
  bytes sum(count * bytes_of(type));
  with_type(type, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = (i / std::max<std::size_t>(chunk, 1) + 1) % size;
      const auto of = [&](std::size_t turn) {
        T x;
        std::memcpy(&x, m.inputs[(first + turn) % size]->data() + i * sizeof(T), sizeof(T));
        return x;
      };
      T x = of(0);
      for (std::size_t turn = 1; turn < size; ++turn) {
        const T y = of(turn);
        x = op == ncclMin ? std::min(x, y) : op == ncclMax ? std::max(x, y) : static_cast<T>(y + x);
      }
      std::memcpy(sum.data() + i * sizeof(T), &x, sizeof(T));
    }
  });
  return sum;
}

// One launch of one rank. A graph launches anew each time it is replayed. Memory may turn out not to be accessible, and then nothing is
// unwound: so it is never touched while the lock is held.
struct flight {
  ncclComm* comm;
  std::vector<task> tasks;
  std::shared_ptr<bool> before = nullptr, done = std::make_shared<bool>(false);
  std::vector<std::uint64_t> numbers = std::vector<std::uint64_t>(tasks.size());  // of the meeting, or of the message on its wire
  std::vector<bool> input_read = std::vector<bool>(tasks.size());
  bool stuck = false;

  clique& ranks() const { return *comm->ranks; }
  meeting& meeting_of(std::size_t i) const { return ranks().meetings[numbers[i]]; }
  wire& wire_of(const task& t) const {
    return t.what == call::send ? ranks().wires[{comm->rank, t.peer}] : ranks().wires[{t.peer, comm->rank}];
  }

  bool may_begin() const {
    const std::lock_guard hold(state);
    return before == nullptr || *before || comm->ended();
  }

  void arrive() {
    {
      const std::lock_guard hold(state);
      if (comm->ended()) return;
      ++operations_begun;
      stuck = comm->operations++ == comm->fails_at;
      if (stuck) comm->error = current.failure;  // the kernel hangs, and ncclCommGetAsyncError says why
      for (std::size_t i = 0; i < tasks.size(); ++i) post(i);
    }
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (chance()) read(i);  // as early as can be; the others as late as can be
  }

  bool all_there() const {
    const std::lock_guard hold(state);
    if (comm->ended()) return true;
    if (stuck) return false;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (tasks[i].collective() && !meeting_of(i).complete()) return false;
    return true;
  }

  void take() {
    if (ended()) return;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (!input_read[i]) read(i);
    for (const task& t : tasks)  // outputs are written piece by piece: nobody may look at them yet
      if (t.to != nullptr) std::memset(t.to, 0xfd, output_bytes(t, comm->rank, ranks().size));
  }

  bool all_read() const {
    const std::lock_guard hold(state);
    if (comm->ended()) return true;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const task& t = tasks[i];
      if (t.collective() && !meeting_of(i).read()) return false;
      if (t.what == call::send && wire_of(t).asked <= numbers[i]) return false;  // a send may wait for its receiver
      if (t.what == call::recv) {
        const auto arrived = wire_of(t).messages.find(numbers[i]);
        if (arrived == wire_of(t).messages.end() || arrived->second.size() != t.count * bytes_of(t.type)) return false;
      }
    }
    return true;
  }

  void give() {
    if (ended()) return;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (const bytes result = collect(i); !result.empty()) std::memcpy(tasks[i].to, result.data(), result.size());
  }

  void end() {
    const std::lock_guard hold(state);
    *done = true;
  }

 private:
  bool ended() const {
    const std::lock_guard hold(state);
    return comm->ended();
  }

  void post(std::size_t i) {
    const task& t = tasks[i];
    input_read[i] = false;
    if (t.what == call::send) numbers[i] = wire_of(t).sent++;
    if (t.what == call::recv) numbers[i] = wire_of(t).asked++;
    if (!t.collective()) return;
    numbers[i] = comm->collectives++;
    meeting_of(i).parts.resize(at(ranks().size)), meeting_of(i).inputs.resize(at(ranks().size));
    meeting_of(i).parts[at(comm->rank)] = t;
  }

  void read(std::size_t i) {
    const task& t = tasks[i];
    input_read[i] = true;
    bytes input(input_bytes(t, comm->rank, ranks().size));
    if (!input.empty()) std::memcpy(input.data(), t.from, input.size());
    const std::lock_guard hold(state);
    if (t.what == call::send) wire_of(t).messages[numbers[i]] = std::move(input);
    else if (t.collective()) meeting_of(i).inputs[at(comm->rank)] = std::move(input);
  }

  bytes collect(std::size_t i) {
    const std::lock_guard hold(state);
    const task& t = tasks[i];
    bytes result;
    if (t.what == call::recv) {
      result = std::move(wire_of(t).messages[numbers[i]]);
      wire_of(t).messages.erase(numbers[i]);
    } else if (t.collective()) {
      result = result_of(meeting_of(i), comm->rank);
      if (++meeting_of(i).left == ranks().size) ranks().meetings.erase(numbers[i]);
    }
    return result;
  }
};

}  // namespace

std::string name_of(call what) {
  constexpr const char* names[] = {"ncclAllReduce",     "ncclReduce", "ncclBroadcast", "ncclAllGather",
                                   "ncclReduceScatter", "ncclSend",   "ncclRecv"};
  return names[static_cast<int>(what)];
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

// nccl.h: "sendcount" of ncclAllGather and "recvcount" of ncclReduceScatter count one rank's part.
std::size_t input_bytes(const task& t, int rank, int size) {
  const std::size_t all = t.count * bytes_of(t.type);
  switch (t.what) {
    case call::reduce_scatter: return all * at(size);
    case call::broadcast: return rank == t.peer ? all : 0;
    case call::recv: return 0;
    default: return all;
  }
}

std::size_t output_bytes(const task& t, int rank, int size) {
  const std::size_t all = t.count * bytes_of(t.type);
  switch (t.what) {
    case call::all_gather: return all * at(size);
    case call::reduce: return rank == t.peer ? all : 0;
    case call::send: return 0;
    default: return all;
  }
}

bool meeting::complete() const {
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return part && part->same_call(*parts[0]); });
}
bool meeting::read() const {
  return std::all_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.has_value(); });
}

bytes result_of(const meeting& m, int rank) {
  const task& t = *m.parts[at(rank)];
  const int size = static_cast<int>(m.parts.size());
  const std::size_t one = t.count * bytes_of(t.type);
  switch (t.what) {
    case call::broadcast: return *m.inputs[at(t.peer)];
    case call::all_reduce: return ring_sum(m, t.type, t.op, t.count);
    case call::reduce: return rank == t.peer ? ring_sum(m, t.type, t.op, t.count) : bytes{};
    case call::reduce_scatter: {
      const bytes all = ring_sum(m, t.type, t.op, t.count * at(size));
      return bytes(all.begin() + static_cast<std::ptrdiff_t>(one * at(rank)),
                   all.begin() + static_cast<std::ptrdiff_t>(one * at(rank + 1)));
    }
    default: {
      bytes all;
      for (const auto& input : m.inputs) all.insert(all.end(), input->begin(), input->end());
      return all;
    }
  }
}

// Counts what closures still hold: those of a graph live as long as the graph and all that was instantiated from it.
struct token {
  explicit token(std::shared_ptr<int> counted) : count(std::move(counted)) {
    const std::lock_guard hold(state);
    ++*count;
  }
  ~token() {
    const std::lock_guard hold(state);
    --*count;
  }
  token(const token&) = delete;
  token& operator=(const token&) = delete;
  std::shared_ptr<int> count;
};

void launch(ncclComm* comm, std::vector<task> tasks) {
  const cudaStream_t stream = tasks[0].stream;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  const bool captured = status == cudaStreamCaptureStatusActive;
  const auto f = std::make_shared<flight>(flight{.comm = comm, .tasks = std::move(tasks)});
  if (!captured) {  // a communicator runs one kernel after the other, whatever streams they were given to
    const std::lock_guard hold(state);
    f->before = std::exchange(comm->latest, f->done);
  }
  const auto counted = std::make_shared<token>(captured ? comm->captured : comm->outstanding);
  const auto enqueue = [&](const char* what, auto run, auto ready) {
    standin::stream_call(stream, [&](runtime& r, CUstream_st& s) {
      return r.enqueue(s, {.what = what, .run = run, .reaches = {comm->device}, .ready = ready});
    });
  };
  enqueue(
      "nccl begins", [f, counted] { f->arrive(); }, [f] { return f->may_begin(); });
  enqueue(
      "nccl reads", [f, counted] { f->take(); }, [f] { return f->all_there(); });
  enqueue(
      "nccl writes", [f, counted] { f->give(), f->end(); }, [f] { return f->all_read(); });
}

}  // namespace standin::nccl

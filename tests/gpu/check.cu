// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What only a GPU can confirm, on one of them: that kernels give the bits of the host, that every strategy does between ranks that share
// the device, that NCCL takes what we ask of it, and that a step can be captured. Then how fast it is, against the device's own copy. Needs
// nvcc and nothing else; tests/gpu/check.sh builds and runs it.
//
//     check right       # one line for each thing, exit status 1 if one of them is wrong
//     check few         # the same with fewer sizes and ranks, for tools that make it slow
//     check fast        # a table in GB/s and milliseconds

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gradsync/comm/cuda_peer.hpp"
#include "gradsync/comm/nccl.hpp"
#include "gradsync/cuda/stream.hpp"
#include "gradsync/gradsync.hpp"

using namespace gradsync;

namespace {

// ---- a model whose elements lie on a device

struct device_span {
  float* data = nullptr;
  std::size_t size = 0;
};
struct device_param {
  device_span value, grad;
};
struct device_model {
  std::vector<device_param> layers;
};

}  // namespace

template <>
struct gradsync::parameter_access<device_span> {
  static constexpr auto space = memory_space::cuda;
  static std::span<float> value(device_span& s) { return {s.data, s.size}; }
};

namespace {

int wrong = 0;
bool few = false;

void report(const std::string& what, bool right) {
  std::printf("%-72s %s\n", what.c_str(), right ? "ok" : "WRONG");
  std::fflush(stdout);
  wrong += !right;
}

struct owned_model {
  explicit owned_model(const std::vector<std::size_t>& sizes) {
    std::size_t all = 0;
    for (const std::size_t n : sizes) all += 2 * (n + 3);  // so that they begin anywhere
    memory = device_memory(all * sizeof(float), current_device());
    auto* next = reinterpret_cast<float*>(memory.get());
    for (const std::size_t n : sizes) {
      net.layers.push_back({{next, n}, {next + n + 1, n}});
      next += 2 * (n + 3);
    }
  }
  void set_grads(int rank, int step) {
    for (std::size_t l = 0; l < net.layers.size(); ++l) {
      const auto values = numbers(rank, step, l, net.layers[l].grad.size);
      check(cudaMemcpy(net.layers[l].grad.data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }
  std::vector<float> grads() const {
    std::vector<float> all;
    for (const device_param& p : net.layers) {
      std::vector<float> here(p.grad.size);
      check(cudaMemcpy(here.data(), p.grad.data, here.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
      all.insert(all.end(), here.begin(), here.end());
    }
    return all;
  }
  static std::vector<float> numbers(int rank, int step, std::size_t layer, std::size_t n) {
    std::vector<float> values(n);
    std::uint32_t state = static_cast<std::uint32_t>(rank * 7919 + step * 104729 + static_cast<int>(layer) * 31 + 1);
    for (float& v : values) {
      state = state * 1664525u + 1013904223u;
      v = (static_cast<float>(state >> 8) - 8388608.0f) / 8388608.0f * (state & 1 ? 1.0f : 1e-3f);
    }
    return values;
  }

  device_model net;
  std::shared_ptr<std::byte> memory;
};

const std::vector<std::size_t> sizes = {1, 1000, 257, 100003, 33, 4096};

// The same updates over threads, in host memory: three of them, with unequal weights.
struct host_param {
  std::vector<float> value, grad;
};
struct host_model {
  std::vector<host_param> layers;
};

template <class Strategy>
std::vector<float> on_host(int ranks, const Strategy& strategy) {
  std::vector<float> result;
  thread_group(ranks).run([&](auto& comm) {
    host_model net;
    for (const std::size_t n : sizes) net.layers.push_back({std::vector<float>(n), std::vector<float>(n)});
    synchronizer sync{net, collective{comm, strategy}, {.bucket_bytes = 1 << 16}};
    for (int step = 0; step < 3; ++step) {
      for (std::size_t l = 0; l < sizes.size(); ++l) net.layers[l].grad = owned_model::numbers(comm.rank(), step, l, sizes[l]);
      sync.begin({.weight = 1 + comm.rank()});
      sync.mark_all_ready();
      sync.finish();
    }
    if (comm.rank() == 0)
      for (const host_param& p : net.layers) result.insert(result.end(), p.grad.begin(), p.grad.end());
  });
  return result;
}

template <class Communicator>
std::vector<float> on_device(const collective<Communicator>& sum) {
  owned_model model(sizes);
  synchronizer sync{model.net, sum, {.bucket_bytes = 1 << 16}};
  for (int step = 0; step < 3; ++step) {
    model.set_grads(sum.communicator().rank(), step);
    sync.begin({.weight = 1 + sum.communicator().rank()});
    sync.mark_all_ready();
    sync.finish();
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return model.grads();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class Strategy>
void strategy_is_right(const Strategy& strategy) {
  for (const int ranks : {2, 3, 4, 8}) {
    if (few && ranks != 3) continue;
    const auto expected = on_host(ranks, strategy);
    std::atomic<int> same{0};
    cuda_peer_group(ranks).run([&](auto& comm) {
      if (same_bits(on_device(collective{comm, strategy}), expected)) ++same;
    });
    report(std::string(strategy.name()) + ", " + std::to_string(ranks) + " ranks on the device: the bits of threads", same == ranks);
  }
}

// ---- kernels, at all alignments and odd lengths, against the host's stream

void kernels_are_right() {
  constexpr std::size_t room = 5000;
  cuda_stream stream(current_device());
  int tried = 0, same = 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{257}, std::size_t{4001}})
    for (std::size_t shift = 0; shift < 5; ++shift)
      for (const double weight : {1.0, 0.0, 0.1, 3.0, 16777217.0})
        for (std::size_t partials = 0; partials < 4; ++partials) {
          std::vector<std::vector<float>> host;
          for (std::size_t b = 0; b < partials + 2; ++b) host.push_back(owned_model::numbers(static_cast<int>(b), tried, n, room));
          if (few && (shift > 1 || n == 4001)) continue;
          const auto memory = device_memory(host.size() * room * sizeof(float), current_device());
          std::vector<extent> there, here;
          for (std::size_t b = 0; b < host.size(); ++b) {
            auto* const at = reinterpret_cast<float*>(memory.get()) + b * room;
            check(cudaMemcpy(at, host[b].data(), room * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
            const std::size_t first = (shift * (b + 1)) % 7;
            there.push_back({reinterpret_cast<std::byte*>(at + first), 0, n});
            here.push_back({reinterpret_cast<std::byte*>(host[b].data() + first), 0, n});
          }
          const auto views = [](const std::vector<extent>& extents) {
            std::vector<buffer_view> all;
            for (const extent& e : extents) all.push_back({dtype::float32, std::span(&e, 1)});
            return all;
          };
          const auto on_there = views(there), on_here = views(here);
          stream.fold(on_there[0], on_there[1], weight, std::span(on_there).subspan(2));
          stream.divide(on_there[1], on_there[0], weight);
          host_stream().fold(on_here[0], on_here[1], weight, std::span(on_here).subspan(2));
          host_stream().divide(on_here[1], on_here[0], weight);
          check(cudaStreamSynchronize(stream.native()), "cudaStreamSynchronize");
          bool right = true;
          for (std::size_t b = 0; b < host.size(); ++b) {
            std::vector<float> back(room);
            check(cudaMemcpy(back.data(), reinterpret_cast<float*>(memory.get()) + b * room, room * sizeof(float), cudaMemcpyDeviceToHost),
                  "cudaMemcpy");
            right = right && same_bits(back, host[b]);
          }
          ++tried;
          same += right;
        }
  report("fold and divide, " + std::to_string(tried) + " lengths, alignments, weights: the bits of the host", same == tried);
}

// ---- NCCL with one rank, and a captured step

void nccl_is_right() {
  nccl_group({current_device()}).run([](auto& comm) {
    report("NCCL takes our configuration, and one rank sums over it", same_bits(on_device(collective{comm}), on_host(1, native{})));

    owned_model model(sizes);
    synchronizer sync{model.net, comm, {.bucket_bytes = 1 << 16}};
    cudaStream_t compute = nullptr;
    check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const auto step = [&] {
      sync.begin({.weight = 3, .gradient = gradient_kind::sum});
      sync.mark_all_ready(compute);
      sync.finish(compute);
    };
    model.set_grads(0, 0);
    step();  // makes all that a step needs
    check(cudaStreamSynchronize(compute), "cudaStreamSynchronize");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    check(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    step();
    check(cudaStreamEndCapture(compute, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
    bool right = true;
    for (int i = 1; i < 4; ++i) {
      model.set_grads(0, i);
      const auto before = model.grads();
      check(cudaGraphLaunch(replay, compute), "cudaGraphLaunch");
      check(cudaStreamSynchronize(compute), "cudaStreamSynchronize");
      auto expected = before;
      for (float& x : expected) x /= 3;
      right = right && same_bits(model.grads(), expected);
    }
    report("a captured step, replayed three times", right);
    check(cudaGraphExecDestroy(replay), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    check(cudaStreamDestroy(compute), "cudaStreamDestroy");
  });
}

// ---- speed

// Milliseconds of what `enqueue` gives to the stream, the median of 15.
double timed(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> ms;
  for (int i = 0; i < 18; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float one = 0;
    check(cudaEventElapsedTime(&one, begin, end), "cudaEventElapsedTime");
    if (i >= 3) ms.push_back(one);
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  std::nth_element(ms.begin(), ms.begin() + 7, ms.end());
  return ms[7];
}

void row(const char* what, double moved, double ms, double limit) {
  const double rate = moved / ms / 1e6;
  std::printf("%-56s %9.3f ms %8.0f GB/s %6.0f %% of copy\n", what, ms, rate, 100 * rate / limit);
}

void bandwidth() {
  constexpr std::size_t tensors = 128, count = 1 << 19;  // 2 MiB each, 256 MiB in all
  constexpr double bytes = double(tensors) * count * sizeof(float);
  cuda_stream stream(current_device());
  std::vector<std::shared_ptr<std::byte>> memory;
  const auto buffer = [&] { return memory.emplace_back(device_memory(tensors * (count + 8) * sizeof(float), current_device())).get(); };
  std::byte* const slab = buffer();
  std::byte* const scattered = buffer();
  const extent whole{slab, 0, tensors * count};
  std::vector<extent> parts;
  for (std::size_t t = 0; t < tensors; ++t) parts.push_back({scattered + t * (count + 4) * sizeof(float), t * count, count});
  const buffer_view packed{dtype::float32, std::span(&whole, 1)}, apart{dtype::float32, parts};

  const double copied = timed(stream.native(), [&] {
    check(cudaMemcpyAsync(slab, scattered, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream.native()), "cudaMemcpyAsync");
  });
  const double limit = 2 * bytes / copied / 1e6;
  row("the device's own copy of 256 MiB", 2 * bytes, copied, limit);
  row("pack 128 gradients of 2 MiB", 2 * bytes, timed(stream.native(), [&] { stream.copy(packed, apart), stream.flush(); }), limit);
  row("pack, each times its weight", 2 * bytes, timed(stream.native(), [&] { stream.fold(packed, apart, 3, {}), stream.flush(); }), limit);
  row("unpack, divided by the sum of the weights", 2 * bytes,
      timed(stream.native(), [&] { stream.divide(apart, packed, 3.0), stream.flush(); }), limit);
  for (const int sources : {2, 4, 8}) {
    std::vector<extent> all;
    for (int s = 0; s < sources; ++s) all.push_back({buffer(), 0, tensors * count});
    std::vector<buffer_view> views;
    for (const extent& e : all) views.push_back({dtype::float32, std::span(&e, 1)});
    row(("add " + std::to_string(sources) + " sources of 256 MiB in tree order").c_str(), (sources + 1) * bytes,
        timed(stream.native(),
              [&] {
                stream.join(packed, views, {0, tensors * count}), stream.flush();
              }),
        limit);
    memory.resize(2);
  }
}

__global__ void compute_for(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

// A step of 8 layers of 8 MiB, each computed for about a millisecond, by ranks that share the device. Its time beyond that of backward
// alone is what communication left exposed.
void overlap() {
  for (const int ranks : {2, 4})
    cuda_peer_group(ranks).run([&](auto& comm) {
      owned_model model(std::vector<std::size_t>(8, 2 << 20));
      synchronizer sync{model.net, comm, {.bucket_bytes = 0}};
      cudaStream_t compute = nullptr;
      check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      const auto backward = [&](auto&& mark) {
        for (std::size_t l = 8; l-- > 0;) {
          compute_for<<<1, 32, 0, compute>>>(1'500'000);
          mark(l);
        }
      };
      const double alone = timed(compute, [&] { backward([](std::size_t) {}); });
      comm.barrier();
      const double together = timed(compute, [&] {
        sync.begin();
        backward([&](std::size_t l) { sync.mark_ready(model.net.layers[l], compute); });
        sync.finish(compute);
      });
      const double sums = timed(compute, [&] {
        sync.mark_all_ready(compute);
        sync.finish(compute);
      });
      if (comm.rank() == 0)
        std::printf("%d ranks on the device: backward %.3f ms, sums %.3f ms, both %.3f ms: exposed %.3f ms\n", ranks, alone, sums, together,
                    together - alone);
      check(cudaStreamDestroy(compute), "cudaStreamDestroy");
    });
}

void against_raw_nccl() {
  nccl_group({current_device()}).run([](auto& comm) {
    for (const std::size_t count : {std::size_t{1} << 18, std::size_t{1} << 24}) {
      owned_model model({count});
      synchronizer sync{model.net, comm, {.layout = layout::packed}};
      const double ours = timed(nullptr, [&] {
        sync.begin({.weight = 3, .gradient = gradient_kind::sum});
        sync.mark_all_ready();
        sync.finish();
      });
      ncclUniqueId id;
      ncclComm_t raw = nullptr;
      check(ncclGetUniqueId(&id), "ncclGetUniqueId");
      check(ncclCommInitRank(&raw, 1, id, 0), "ncclCommInitRank");
      float* const at = model.net.layers[0].grad.data;
      const double theirs =
          timed(nullptr, [&] { check(ncclAllReduce(at, at, count, ncclFloat32, ncclSum, raw, nullptr), "ncclAllReduce"); });
      check(ncclCommDestroy(raw), "ncclCommDestroy");
      std::printf("NCCL, one rank, %7.1f MiB: a whole step with pack, division, unpack %.3f ms, raw all-reduce in place %.3f ms\n",
                  static_cast<double>(count) * 4 / (1 << 20), ours, theirs);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "right" && what != "few" && what != "fast") return std::fputs("usage: check right|few|fast\n", stderr), 2;
  few = what == "few";
  if (device_count() == 0) return std::puts("no CUDA device: nothing to run on"), 0;
  try {
    if (what != "fast") {
      kernels_are_right();
      strategy_is_right(native{});
      strategy_is_right(direct{});
      strategy_is_right(ring{});
      strategy_is_right(tree{});
      strategy_is_right(halving_doubling{});
      strategy_is_right(recursive_doubling{});
      strategy_is_right(double_tree{});
      nccl_is_right();
      std::printf("%d wrong\n", wrong);
    } else {
      bandwidth();
      overlap();
      against_raw_nccl();
    }
  } catch (const std::exception& e) {
    std::printf("ended by %s\n", e.what());
    return 1;
  }
  return wrong > 0;
}

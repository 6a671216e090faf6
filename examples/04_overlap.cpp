// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Does communication really happen while backward computes?
//
//     bazel run //examples:04_overlap                          # or: bazel run //examples:04_overlap -- $PWD/trace.json
//
// Eight equal layers, a bucket each. A bucket leaves when its layer is marked; a thread of each rank's own sums it while the next layers
// are computed. The last bucket has nothing left to hide behind: its time is exposed. progress::automatic, the default, starts such
// threads where each rank has two CPUs; elsewhere the computing thread does it all, and all of it counts as exposed. The file is a Chrome
// trace: open it in ui.perfetto.dev.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <vector>

#include "gradsync/gradsync.hpp"

constexpr std::size_t layers = 8, width = 256, batch = 16;

struct param {
  std::vector<float> value = std::vector<float>(width * width, 0.01f), grad = std::vector<float>(width * width);
};
struct model {
  param layer[layers];
};

// A linear layer: its gradient from its input, and the gradient of that input, which is the output gradient of the layer below.
std::vector<float> backward(param& layer, const std::vector<float>& input, const std::vector<float>& out_grad) {
  std::vector<float> in_grad(width * batch);
  for (std::size_t out = 0; out < width; ++out)
    for (std::size_t in = 0; in < width; ++in) {
      float sum = 0;
      for (std::size_t b = 0; b < batch; ++b) {
        sum += out_grad[out * batch + b] * input[in * batch + b];
        in_grad[in * batch + b] += layer.value[out * width + in] * out_grad[out * batch + b];
      }
      layer.grad[out * width + in] = sum / batch;
    }
  return in_grad;
}

int main(int argc, char** argv) {
  std::vector<gradsync::recorder> recorders{gradsync::recorder{0}, gradsync::recorder{1}};
  gradsync::thread_group{2}.run([&](auto& comm) {
    model net;
    gradsync::recorder& recorder = recorders[comm.rank() == 0 ? 0 : 1];
    gradsync::synchronizer sync{net, comm, {.bucket_bytes = 0, .progress = gradsync::progress::thread, .recorder = &recorder}};
    const std::vector<float> input(width * batch, 1);
    for (int update = 0; update < 10; ++update) {
      std::vector<float> out_grad(width * batch, 1);
      comm.barrier();
      sync.begin();
      for (std::size_t l = layers; l-- > 0; sync.mark_ready(net.layer[l])) out_grad = backward(net.layer[l], input, out_grad);
      sync.finish();
    }
  });

  // The rank that computes longest sets the pace; the other one waits for it in finish(), which counts as exposed there. This is the first
  // update in which that rank's finish() found all buckets but the last at home, or the last update.
  const gradsync::step_times* shown = nullptr;
  for (std::size_t u = 0; u < 10; ++u) {
    const gradsync::step_times &a = recorders[0].steps()[u], &b = recorders[1].steps()[u];
    shown = a.finish > b.finish ? &a : &b;
    if (shown->buckets[layers - 2].end <= shown->finish) break;
  }
  const auto ms = [&](auto t) { return std::chrono::duration<double, std::milli>(t - shown->begin).count(); };
  std::printf("milliseconds after begin()\nbucket    ready    start      end  exposed\n");
  for (std::size_t i = 0; i < layers; ++i) {
    const gradsync::bucket_times& b = shown->buckets[i];
    const double exposed = std::chrono::duration<double, std::milli>(b.exposed).count();
    std::printf("%6zu %8.2f %8.2f %8.2f %8.2f\n", i, ms(b.ready), ms(b.start), ms(b.end), exposed);
  }
  std::printf("finish() called at %.2f, done at %.2f\n", ms(shown->finish), ms(shown->end));
  if (argc > 1) std::ofstream(argv[1]) << gradsync::chrome_trace(recorders);
}

// Next: 05_accumulation shows how several micro-steps make one update.

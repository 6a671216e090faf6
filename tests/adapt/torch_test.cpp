// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One file for both headers: LibTorch takes its time to compile.
#include "gradsync/adapt/torch.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/comm/threads.hpp"
#include "gradsync/model/describe.hpp"
#include "gradsync/model/fingerprint.hpp"

using namespace gradsync;

namespace {

using communicator = thread_communicator;
using synchronizer_of_torch = torch_synchronizer<communicator>;

// Every rank begins with other values.
torch::Tensor numbers(at::IntArrayRef shape, std::int64_t seed, at::ScalarType type = at::kFloat) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return torch::randn(shape, generator, torch::dtype(type));
}
void fill(torch::nn::Module& net, std::int64_t seed) {
  const torch::NoGradGuard no_grad;
  for (auto& p : net.parameters()) p.copy_(numbers(p.sizes(), ++seed, p.scalar_type()));
}

struct perceptron : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 9));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{9}));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(9, 3));

  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(norm(first(x)))); }
};

// A chain of scalars, in which everything can be computed by hand: the loss is x * a * b, and c waits.
struct chain : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::ones(1)), b = register_parameter("b", torch::ones(1)),
                c = register_parameter("c", torch::ones(1));
};

float number(const torch::Tensor& t) { return t.item<float>(); }

struct training {
  int updates = 3;
  synchronizer_options options{};
  at::ScalarType type = at::kFloat;
};

// Trains on 8 micro-batches an update, 1 + m % 3 examples in micro-batch m, in contiguous shares. The fingerprint of the end.
std::uint64_t train(int ranks, const training& how) {
  std::atomic<std::uint64_t> result = 0;
  thread_group(ranks).run([&](communicator& comm) {
    perceptron net;
    net.to(how.type);
    fill(net, 100 * comm.rank());
    synchronizer_of_torch sync(net, comm, how.options);
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const int share = 8 / ranks;
    for (int update = 0; update < how.updates; ++update) {
      optimizer.zero_grad();
      for (int i = 0; i < share; ++i) {
        const int m = comm.rank() * share + i, examples = 1 + m % 3;
        sync.begin({.weight = examples, .micro_step = i + 1 < share ? micro_step::more : micro_step::last});
        const auto x = numbers({examples, 6}, 10 * m + update, how.type), y = numbers({examples, 3}, 10 * m + update + 500, how.type);
        torch::mse_loss(net.forward(x), y).backward();
        sync.finish();
      }
      optimizer.step();
    }
    const std::uint64_t mine = fingerprint(torch_parameters(net));
    if (comm.rank() == 0) result = mine;
    CHECK(mine == comm.broadcast(mine));
  });
  return result;
}

}  // namespace

TEST_CASE("a module's parameters go by their names, those of float and of double in one order") {
  struct mixed : torch::nn::Module {
    torch::nn::Sequential body = register_module(
        "body", torch::nn::Sequential(torch::nn::Linear(2, 3), torch::nn::Linear(torch::nn::LinearOptions(3, 4).bias(false))));
    torch::Tensor scale = register_parameter("scale", torch::ones({5}, torch::kDouble));
    torch::Tensor frozen = register_parameter("frozen", torch::ones(2), false);
    torch::Tensor mean = register_buffer("mean", torch::zeros(7)), steps = register_buffer("steps", torch::zeros({}, torch::kLong));
  } net;
  torch_parameters all(net);
  const auto parameters = parameters_of(all);
  std::string text;
  for (const parameter& p : parameters) text += p.name() + ' ' + std::to_string(p.count) + ' ' + name_of(p.type) + '\n';
  CHECK(text == "scale 5 float64\nbody.0.weight 6 float32\nbody.0.bias 3 float32\nbody.1.weight 12 float32\n");
  CHECK(parameters[0].value().data == static_cast<std::byte*>(net.scale.data_ptr()));
  CHECK(parameters[0].grad().count == 0);
  std::string kept;
  for (const state_entry& s : states_of(all)) kept += s.name + ' ' + std::to_string(s.count) + ' ' + name_of(s.type) + '\n';
  CHECK(kept == "frozen 2 float32\nmean 7 float32\nsteps 1 int64\n");
  CHECK(describe(all).find("body.1.weight  float32              12            48") != std::string::npos);
}

TEST_CASE("tensors that gradsync can't take are refused by name") {
  struct holder : torch::nn::Module {
    explicit holder(const torch::Tensor& t, const torch::Tensor& buffer = {}) {
      register_parameter("odd", t);
      if (buffer.defined()) register_buffer("kept", buffer);
    }
  };
  const auto refused = [](const holder& net) {
    try {
      torch_parameters all(net);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refused(holder(torch::ones(2, torch::kBFloat16))) ==
        "gradsync \"odd\": is a CPUBFloat16Type; gradsync takes float, double, bool, and integers of 8 to 64 bits");
  CHECK(refused(holder(torch::ones({2, 3}).t())).find("\"odd\": is a CPUFloatType; gradsync takes contiguous tensors") !=
        std::string::npos);
  CHECK(refused(holder(torch::ones(2), torch::ones(2, torch::kHalf))).find("\"kept\": is a CPUHalfType") != std::string::npos);
  CHECK(refused(holder(torch::ones(2), torch::ones(2, torch::kComplexFloat))).find("\"kept\"") != std::string::npos);
  CHECK(refused(holder(torch::ones(2).requires_grad_(false))).empty());  // register_parameter asks for a gradient
  CHECK(refused(holder(torch::ones(2))).empty());
  struct : torch::nn::Module {
  } nothing;
  CHECK_THROWS_WITH_AS(torch_parameters{nothing}, doctest::Contains("no parameter that requires a gradient"), usage_error);
}

TEST_CASE("every rank begins with rank 0's parameters, frozen parameters and buffers") {
  thread_group(3).run([](communicator& comm) {
    struct normed : torch::nn::Module {
      torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 4));
      torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
      torch::Tensor frozen = register_parameter("frozen", torch::zeros(3), false);
      torch::Tensor mask = register_buffer("mask", torch::zeros(3, torch::kBool));
    } net;
    const auto stamp = [&](float v) {
      const torch::NoGradGuard no_grad;
      for (auto& p : net.parameters()) p.fill_(v);
      for (auto& b : net.buffers()) b.fill_(v);
    };
    stamp(static_cast<float>(comm.rank()) + 1);
    net.mask.fill_(comm.rank() == 0);
    synchronizer_of_torch sync(net, comm);
    for (auto& p : net.parameters()) CHECK(p.eq(1).all().item<bool>());
    for (auto& b : net.buffers()) CHECK(b.to(torch::kFloat).eq(1).all().item<bool>());
    CHECK(net.norm->num_batches_tracked.item<std::int64_t>() == 1);
    CHECK(sync.parameters().size() == 4);  // the frozen one is not reduced
    (net.norm(net.first(numbers({5, 4}, comm.rank())))).pow(2).sum().backward();
    sync.finish();
    const auto mine = net.norm->running_mean.clone();
    sync.broadcast_state();
    CHECK(net.norm->running_mean.equal(mine) == (comm.rank() == 0));
    const float mean = number(net.norm->running_mean[0]);
    CHECK(comm.broadcast(mean) == mean);
  });
}

TEST_CASE("N ranks end with the bits of one rank, in every layout, and so in float and double") {
  torch::set_num_threads(1);
  const std::uint64_t alone = train(1, {});
  for (const int ranks : {2, 4, 8}) CHECK(train(ranks, {}) == alone);
  for (const layout how : {layout::in_place, layout::adopted, layout::packed})
    for (const int ranks : {1, 2, 4}) CHECK(train(ranks, {.options = {.bucket_bytes = 100, .layout = how}}) == alone);
  CHECK(train(4, {.type = at::kDouble}) == train(1, {.type = at::kDouble}));
  CHECK(train(1, {.updates = 4}) != alone);  // the fingerprint notices a step
}

TEST_CASE("a gradient is the mean over all examples, not the mean of means") {
  thread_group(2).run([](communicator& comm) {
    chain net;
    synchronizer_of_torch sync(net, comm);
    const int examples = comm.rank() == 0 ? 4 : 1;
    const auto x = torch::full(examples, comm.rank() == 0 ? 1.0f : 5.0f);
    sync.begin({.weight = examples});
    (x * net.a * net.b + net.c).mean().backward();
    const step_result result = sync.finish();
    CHECK(result.weight == 5);
    CHECK(number(net.a.grad()) == 9.0f / 5);
    CHECK(number(net.c.grad()) == 1);
  });
}

TEST_CASE("buckets are summed while backward() still runs") {
  std::atomic<bool> give_up = false;
  thread_group(2).run([&](communicator& comm) {
    chain net;
    synchronizer_of_torch sync(net, comm, {.bucket_bytes = 0, .progress = progress::thread});
    // c is done first. Nobody computes the gradient of a before the mean of that of c is in place on all ranks.
    std::size_t completed = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    auto middle = net.a * 2;
    middle.register_hook([&](const torch::Tensor&) {
      while (sync.completed_buckets() == 0 && !give_up) {
        if (std::chrono::steady_clock::now() > deadline) give_up = true;
        std::this_thread::yield();
      }
      completed = sync.completed_buckets();
    });
    (middle * net.b + net.c * torch::full(1, comm.rank())).sum().backward();
    sync.finish();
    CHECK(completed >= 1);
    CHECK(number(net.c.grad()) == 0.5f);
    CHECK(sync.completed_buckets() == 3);
  });
  CHECK_FALSE(give_up);
}

TEST_CASE("an adopted gradient lives in its bucket, also after it was set to none") {
  std::vector<torch::Tensor> left;
  thread_group(2).run([&](communicator& comm) {
    perceptron net;
    net.second->bias.mutable_grad() = torch::full(3, 7.0f);  // what was there comes along
    {
      synchronizer_of_torch sync(net, comm, {.layout = layout::adopted});
      CHECK(sync.memory().gradients == 0);
      CHECK(sync.memory().buckets >= sync.memory().values);
      std::vector<void*> homes;
      for (const auto& p : net.parameters()) homes.push_back(p.grad().data_ptr());
      CHECK(net.second->bias.grad().eq(7).all().item<bool>());
      CHECK(net.first->weight.grad().eq(0).all().item<bool>());
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      for (int step = 0; step < 4; ++step) {
        if (step == 0) optimizer.zero_grad();
        else net.zero_grad(step >= 2);
        CHECK(net.first->weight.grad().defined() == (step < 2));
        torch::mse_loss(net.forward(numbers({2, 6}, comm.rank() + step)), torch::zeros({2, 3})).backward();
        sync.finish();
        for (std::size_t i = 0; i < homes.size(); ++i) CHECK(net.parameters()[i].grad().data_ptr() == homes[i]);
        optimizer.step();
      }
    }
    for (const auto& p : net.parameters()) CHECK_FALSE(p.grad().defined());  // never a gradient in memory that is gone
    torch::mse_loss(net.forward(torch::zeros({2, 6})), torch::ones({2, 3})).backward();
    CHECK(net.first->weight.grad().defined());
  });
}

TEST_CASE("a tensor under two names is one parameter, and ready once") {
  struct shared : torch::nn::Module {
    torch::Tensor in = register_parameter("in", torch::full(1, 3.0f));
    torch::Tensor out = register_parameter("out", in);
    torch::Tensor other = register_parameter("other", torch::ones(1));
  };
  for (const layout how : {layout::in_place, layout::adopted})
    thread_group(2).run([&](communicator& comm) {
      shared net;
      synchronizer_of_torch sync(net, comm, {.layout = how});
      REQUIRE(sync.parameters().size() == 2);
      CHECK(sync.parameters()[0].aliases.size() == 2);
      CHECK(sync.parameters()[0].aliases[1].name == "out");
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        (net.in * net.out * net.other * static_cast<float>(comm.rank() + 1)).sum().backward();  // d in = 2 * 3 * (rank + 1)
        sync.finish();
        CHECK(number(net.in.grad()) == 9);
        CHECK(net.out.grad().is_same(net.in.grad()));
      }
    });
}

TEST_CASE("a parameter that backward() did not reach is named, or counts as zero") {
  thread_group(2).run([](communicator& comm) {
    chain net;
    synchronizer_of_torch sync(net, comm);
    for (int step = 0; step < 3; ++step) {
      sync.begin({.weight = 1});
      (net.a * net.b * 6).sum().backward();
      CHECK_THROWS_WITH_AS(sync.finish(), doctest::Contains("\"c\": backward() did not reach this parameter; if that is meant"),
                           usage_error);
      if (comm.rank() == 0) net.c.mutable_grad() = torch::full(1, 100.0f);  // of long ago: not this backward's
      sync.mark_all_ready();
      sync.finish();
      CHECK(number(net.c.grad()) == 0);
      CHECK(number(net.a.grad()) == 6);
      net.zero_grad();
    }
  });
}

TEST_CASE("micro-steps: LibTorch adds up in plain mode, and gradsync in its own, with nothing to zero between") {
  for (const auto mode : {accumulation_mode::plain, accumulation_mode::tree})
    for (const layout how : {layout::in_place, layout::adopted})
      thread_group(2).run([&](communicator& comm) {
        chain net;
        synchronizer_of_torch sync(net, comm, {.layout = how, .accumulation = mode});
        for (int update = 0; update < 2; ++update) {
          net.zero_grad();
          for (int m = 0; m < 3; ++m) {
            sync.begin({.weight = 1, .gradient = gradient_kind::sum, .micro_step = m < 2 ? micro_step::more : micro_step::last});
            ((net.a + net.b + (m == 1 ? net.c : net.b)) * static_cast<float>(m + 1)).sum().backward();
            sync.mark_all_ready();
            CHECK(sync.finish().updated == (m == 2));
          }
          CHECK(number(net.a.grad()) == 12.0f / 6);        // (1 + 2 + 3) / 3
          CHECK(number(net.b.grad()) == (12.0f + 8) / 6);  // twice in micro-steps 0 and 2
          CHECK(number(net.c.grad()) == 4.0f / 6);
        }
      });
}

TEST_CASE("a rank without data contributes nothing") {
  thread_group(2).run([](communicator& comm) {
    chain net;
    synchronizer_of_torch sync(net, comm);
    for (int step = 0; step < 2; ++step) {
      if (comm.rank() == step) {
        sync.begin({.weight = 3});
        (net.a * net.b * net.c * 5).sum().backward();
        sync.finish();
      } else {
        CHECK(sync.contribute_nothing().weight == 3);
      }
      CHECK(number(net.a.grad()) == 5);
      net.zero_grad();
    }
  });
}

TEST_CASE("what is wrong in a hook comes out of backward() as what it is") {
  thread_group(1).run([](communicator& comm) {
    {
      chain net;
      synchronizer_of_torch sync(net, comm);
      const auto loss = [&] { return (net.a * net.b * net.c).sum(); };
      loss().backward();
      CHECK_THROWS_WITH_AS(loss().backward(), doctest::Contains("gradsync[rank 0] \"c\": backward() ran twice in one micro-step"),
                           usage_error);
      sync.finish();
      net.zero_grad(true);
      CHECK_THROWS_WITH_AS(loss().backward({}, c10::nullopt, true), doctest::Contains("call backward() without create_graph"), usage_error);
    }
    {
      chain net;
      synchronizer_of_torch sync(net, comm);
      std::thread([&] {
        CHECK_THROWS_WITH_AS((net.a * net.b * net.c).sum().backward(),
                             doctest::Contains("ran on a thread that did not make the synchronizer"), usage_error);
      }).join();
    }
    {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
      synchronizer_of_torch sync(*table, comm);
      CHECK_THROWS_WITH_AS(table(torch::tensor({1, 3})).sum().backward(), doctest::Contains("\"weight\": its gradient is sparse"),
                           usage_error);
    }
  });
}

TEST_CASE("a rank that fails in backward() fails the others, and the group throws its exception") {
  std::atomic<int> told = 0;
  const auto train_until_it_fails = [&] {
    thread_group(3).run([&](communicator& comm) {
      try {
        chain net;
        synchronizer_of_torch sync(net, comm, {.bucket_bytes = 0});
        auto middle = net.a * 2;
        middle.register_hook([&](const torch::Tensor&) {
          if (comm.rank() == 1) throw std::runtime_error("disk full");
        });
        (middle * net.b * net.c).sum().backward();
        sync.finish();
      } catch (const transport_error& e) {
        if (std::string(e.what()).find("rank 1 failed: disk full") != std::string::npos) ++told;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH_AS(train_until_it_fails(), "disk full", std::runtime_error);
  CHECK(told == 2);
}

TEST_CASE("the hooks go with the synchronizer") {
  thread_group(1).run([](communicator& comm) {
    chain net;
    const auto hooks = [&] { return torch::autograd::impl::grad_accumulator(net.a)->post_hooks().size(); };
    {
      synchronizer_of_torch first(net, comm);
      const auto held = torch::autograd::impl::grad_accumulator(net.a);
      CHECK(hooks() == 1);
      {
        synchronizer_of_torch second(net, comm);
        CHECK(hooks() == 2);
      }
      CHECK(hooks() == 1);
    }
    CHECK(hooks() == 0);
    (net.a * net.b * net.c).sum().backward();
    CHECK(number(net.a.grad()) == 1);
  });
}

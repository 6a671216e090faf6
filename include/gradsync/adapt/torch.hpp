// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Data-parallel training of any torch::nn::Module: what DistributedDataParallel is to PyTorch, for LibTorch in C++.
///
///     torch::set_num_threads(1);                          // ranks are the parallelism: one thread each, or CPUs / ranks
///     ranks.run([](auto& comm) {
///       auto net = std::make_shared<perceptron>();        // each rank has a module and an optimizer of its own
///       torch::optim::SGD optimizer(net->parameters(), 0.1);
///       gradsync::torch_synchronizer sync{*net, comm};    // every rank now has rank 0's values
///       for (auto& [x, y] : my_share) {
///         optimizer.zero_grad();
///         sync.begin({.weight = x.size(0)});              // optional: weight 1
///         torch::mse_loss(net->forward(x), y).backward(); // buckets leave while it runs
///         sync.finish();                                  // every gradient is the mean over all examples of all ranks
///         optimizer.step();
///       }
///     });
///
/// A hook behind each parameter's gradient accumulator marks the gradient as soon as it is made. What doesn't require a gradient when the
/// synchronizer is made is frozen: like the buffers of the module (running statistics) it gets rank 0's values then, and in
/// broadcast_state(). A tensor under several names is one parameter. Gradients are averaged where LibTorch makes them; with
/// layout::adopted they live in the buckets, and go back there when they have been set to none.
///
/// Accumulation: in a `more` micro-step each gradient is taken as soon as it is made, and cleared; there is nothing to zero before the next
/// one. With accumulation_mode::plain LibTorch adds up, and nothing is cleared.
///
/// Cost: a hook is a few pointer reads. Errors that arise while backward() runs come out of backward() as they are. Written for LibTorch
/// 1.13; float32 and float64 on the CPU.
#pragma once

#include <torch/csrc/autograd/function_hook.h>              // a hook's base
#include <torch/csrc/autograd/functions/accumulate_grad.h>  // what it hangs on
#include <torch/csrc/autograd/variable.h>                   // where that is found
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <deque>  // hooks hold addresses
#include <memory>
#include <span>
#include <string>
#include <thread>  // whose the synchronizer is
#include <utility>

#include "gradsync/adapt/torch_parameters.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/synchronizer.hpp"

namespace gradsync {

/// Keeps the replicas of a module in step. Made, used and destroyed by its rank's thread, which calls backward() too.
template <transport Communicator>
class torch_synchronizer {
 public:
  /// All ranks construct theirs together; blocks. Throws what the constructors of `torch_parameters` and `synchronizer` throw.
  torch_synchronizer(torch::nn::Module& module, Communicator& comm, const synchronizer_options& options = {})
      : torch_synchronizer(module, collective<Communicator>(comm), options) {}
  torch_synchronizer(torch::nn::Module& module, const collective<Communicator>& sum, const synchronizer_options& options = {})
      : rank_(sum.communicator().rank()), keeps_(options.accumulation == accumulation_mode::plain),
        parameters_(located([&] { return torch_parameters(module); })), sync_(parameters_, sum, options) {
    for (torch_parameter& p : parameters_.trained()) leaves_.emplace_back(*this, p);
  }
  torch_synchronizer(const torch_synchronizer&) = delete;
  torch_synchronizer& operator=(const torch_synchronizer&) = delete;

  /// Begins a micro-step: one backward(). Without it backward() begins one of weight 1, the last of its update.
  void begin(const step_options& options = {}) {
    sync_.begin(options);
    takes_ = options.micro_step == micro_step::more && !keeps_;
    begun_ = true;
  }

  /// Parameters that backward() did not reach count with a gradient of zero. Before finish(), where a loss needs only a part of the module.
  void mark_all_ready() {
    for (leaf& l : leaves_) {
      if (l.ready) continue;
      if (!keeps_ || l.parameter->grad().count == 0) l.parameter->zero();
      mark(l);
    }
  }

  /// Ends the micro-step. After the last one of an update every gradient is the mean over all examples of all ranks. `usage_error` if
  /// backward() did not reach every parameter.
  step_result finish() {
    for (const leaf& l : leaves_)
      if (begun_ && !l.ready)
        throw usage_error("backward() did not reach this parameter; if that is meant, call mark_all_ready() before finish()",
                          {.rank = rank_, .parameter = l.parameter->names().front()});
    const step_result result = sync_.finish();
    for (leaf& l : leaves_) l.ready = false;
    begun_ = takes_ = false;
    return result;
  }

  /// A whole last micro-step of weight 0, without backward(): for a rank without data, and to cut an update short.
  step_result contribute_nothing() {
    begin({.weight = 0});
    mark_all_ready();
    return finish();
  }

  /// Gives every rank rank 0's buffers and frozen parameters, between two updates; all ranks call it together. Before an evaluation or a
  /// checkpoint: running statistics are each rank's, from its own examples.
  void broadcast_state() { sync_.broadcast_state(); }

  /// What synchronizer.hpp says of them.
  std::size_t completed_buckets() const { return sync_.completed_buckets(); }
  const bucket_plan& plan() const { return sync_.plan(); }
  std::span<const parameter> parameters() const { return sync_.parameters(); }
  std::string describe_plan() const { return sync_.describe_plan(); }
  gradsync::progress progress() const { return sync_.progress(); }
  gradsync::layout layout() const { return sync_.layout(); }
  const gradsync::metrics& metrics() const { return sync_.metrics(); }
  memory_report memory() const { return sync_.memory(); }

 private:
  struct leaf;

  struct hook : torch::autograd::FunctionPostHook {
    hook(torch_synchronizer& s, leaf& l) : sync(s), made(l) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      sync.settle(made);
      return outputs;
    }
    torch_synchronizer& sync;
    leaf& made;
  };

  // A parameter, and the hook behind what accumulates its gradient.
  struct leaf {
    leaf(torch_synchronizer& sync, torch_parameter& p)
        : parameter(&p), accumulator(torch::autograd::impl::grad_accumulator(p.tensor())),
          key(accumulator->add_post_hook(std::make_unique<hook>(sync, *this))) {}
    ~leaf() { accumulator->del_post_hook(key); }
    leaf(const leaf&) = delete;
    leaf& operator=(const leaf&) = delete;

    torch_parameter* parameter;
    std::shared_ptr<torch::autograd::Node> accumulator;  // which the tensor does not keep alive
    std::uintptr_t key;
    bool ready = false;
  };

  template <class F>
  decltype(auto) located(F&& f, const std::string& name = {}) const {
    return locating([&] { return place{.rank = rank_, .step = -1, .bucket = -1, .parameter = name}; }, f);
  }

  void settle(leaf& l) {
    located(
        [&] {
          if (std::this_thread::get_id() != thread_)
            throw usage_error("backward() ran on a thread that did not make the synchronizer; each rank calls its own, on its own thread");
          if (l.ready) throw usage_error("backward() ran twice in one micro-step; finish() each, the earlier ones as micro_step::more");
          l.parameter->settle();
        },
        l.parameter->names().front());
    mark(l);
  }

  void mark(leaf& l) {
    begun_ = true;
    for (std::size_t alias = 0; alias < l.parameter->names().size(); ++alias) sync_.mark_ready(*l.parameter);
    l.ready = true;
    if (takes_) l.parameter->clear();
  }

  int rank_;
  bool keeps_;                          // LibTorch accumulates
  bool begun_ = false, takes_ = false;  // this micro-step's gradients are taken as they are made
  std::thread::id thread_ = std::this_thread::get_id();
  torch_parameters parameters_;
  synchronizer<torch_parameters, Communicator> sync_;
  std::deque<leaf> leaves_;  // the hooks go before what they call
};

}  // namespace gradsync

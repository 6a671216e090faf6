// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The front door: keeps a model's replicas in step.
///
///     gradsync::synchronizer sync{net, comm};         // every rank now has rank 0's values
///     for (auto batch : my_share) {
///       sync.begin({.weight = batch.size()});         // optional: weight 1, the gradient is a mean, one micro-step
///       net.bias.grad = …;  sync.mark_ready(net.bias);    // its bucket leaves while the rest is computed
///       net.weight.grad = …;  sync.mark_ready(net.weight);
///       sync.finish();                                // every gradient is the mean over all examples of all ranks
///     }
///
/// One synchronizer a rank and model, used by that rank's thread. The model outlives it; parameters may not come, go, move or change their
/// size meanwhile, and `begin()` finds out if they do. A gradient belongs to the library from its mark until `finish()` returns. An update
/// is one or more micro-steps (see sync/step.hpp); ranks may differ in their number of `more` micro-steps, not of `last` ones.
///
/// A model's `state` (running statistics, frozen layers) is never summed; it is rank 0's at the start and after `broadcast_state()`.
///
/// On CUDA no call waits for the device once the model is there. Marks and `finish` may name the stream of the user's that they are about,
/// else it is the communicator's `compute_stream()`. What a stream has been given up to a mark makes the gradient; what it is given after
/// `finish` finds the mean. CUDA graphs that have captured steps have to be destroyed before the synchronizer.
///
/// Errors: `usage_error` for a wrong call, which changes nothing; `mismatch_error`, `transport_error` and `timeout_error` end the group on
/// all ranks, and every later call throws them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "gradsync/bucket/plan.hpp"
#include "gradsync/bucket/storage.hpp"
#include "gradsync/collective/collective.hpp"
#include "gradsync/comm/transport.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/core/series.hpp"
#include "gradsync/guard/start.hpp"
#include "gradsync/guard/watched_model.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/parameter.hpp"
#include "gradsync/sync/driver.hpp"
#include "gradsync/sync/options.hpp"
#include "gradsync/sync/ready_order.hpp"
#include "gradsync/sync/ready_tracker.hpp"
#include "gradsync/sync/reducer.hpp"
#include "gradsync/sync/route.hpp"
#include "gradsync/sync/start_values.hpp"
#include "gradsync/sync/step.hpp"
#include "gradsync/sync/window.hpp"
#include "gradsync/trace/metrics.hpp"
#include "gradsync/trace/recorder.hpp"

namespace gradsync {

template <class Model, transport Communicator>
class synchronizer {
 public:
  /// What names a stream of the user's: cudaStream_t on CUDA; on the host there is only one.
  using handle = typename stream_of<Communicator>::handle;

  /// The gradients stand beside the values. All ranks construct theirs together; blocks; afterwards every rank has rank 0's values.
  synchronizer(Model& model, Communicator& comm, const synchronizer_options& options = {})
      : synchronizer(model, collective<Communicator>(comm), options) {}
  synchronizer(Model& model, const collective<Communicator>& sum, const synchronizer_options& options = {})
      : synchronizer(sum, options, on_rank(sum, [&] { return watched_model<Model>(model); })) {}

  /// The gradients are in a second object of the model's type.
  synchronizer(Model& model, Model& grads, Communicator& comm, const synchronizer_options& options = {})
      : synchronizer(model, grads, collective<Communicator>(comm), options) {}
  synchronizer(Model& model, Model& grads, const collective<Communicator>& sum, const synchronizer_options& options = {})
      : synchronizer(sum, options, on_rank(sum, [&] { return watched_model<Model>(model, grads); })) {}

  /// With buckets on their way, or in an update that an exception ends, this ends the group on all ranks, and waits until no peer is in
  /// this rank's gradients.
  ~synchronizer() {
    if (window_open_ && std::uncaught_exceptions() > exceptions_)
      comm().abandon(std::make_exception_ptr(transport_error("an exception that has not left its function ended its update", here())));
    if (storage_.has_views()) storage_.release(model_.list_if_possible());  // views of ours look at nothing, wherever they are now
  }
  synchronizer(const synchronizer&) = delete;
  synchronizer& operator=(const synchronizer&) = delete;

  /// Begins a micro-step.
  void begin(const step_options& options = {}) {
    reducer_.rethrow();
    if (in_step_) throw usage_error("begin() inside a micro-step: finish() the one before it", here());
    at_here([&] {
      model_.check();
      route_.begin(options, memory_for_sums());
    });
    if (!window_open_) reducer_.begin(updates_);
    in_step_ = window_open_ = true;
    times_.begin = std::chrono::steady_clock::now();
    tracker_.reset();
  }

  /// The gradient of a parameter is final for this micro-step. `part` is a parameter, its value or gradient, a layer, or the whole model.
  /// Costs a lookup; never waits for a peer. Where a part is refused half way, put it right, and mark_all_ready() marks the rest of it.
  template <class Part>
  void mark_ready(Part& part) {
    mark_ready(part, comm().compute_stream());
  }
  template <class Part>
  void mark_ready(Part& part, const handle& user) {
    const bool begins = !in_step_;
    for_each_mark(part, [&](const void* address) {
      const std::size_t i = index_.find(address);
      if (i == address_index::none) throw unknown();
      open();
      try {
        mark(i, user);
      } catch (const usage_error&) {
        if (begins && tracker_.untouched()) in_step_ = false;  // the call has changed nothing: not even begun the micro-step
        throw;
      }
    });
    order_.end_call();
  }

  /// Everything that is not yet ready is.
  void mark_all_ready() { mark_all_ready(comm().compute_stream()); }
  void mark_all_ready(const handle& user) {
    open();
    for (std::size_t i = parameters_.size(); i-- > 0;)
      while (tracker_.missing_marks(i) > 0) mark(i, user);
    order_.end_call();
  }

  /// Ends the micro-step. After the last one of an update every gradient is the mean over all examples of all ranks, and the same bits on
  /// all of them. In the first update ranks then agree on the order of readiness, and may plan buckets anew (`replan`).
  step_result finish() { return finish(comm().compute_stream()); }
  step_result finish(const handle& user) {
    reducer_.rethrow();
    if (!in_step_) throw usage_error("finish() without a micro-step: begin() or mark a gradient first", here());
    at_here([&] { tracker_.check_all_ready(); });
    if (!window_.last()) {
      route_.end_micro_step(user);
      in_step_ = false;
      return {.updated = false, .weight = 0, .step = updates_};
    }
    times_.finish = std::chrono::steady_clock::now();
    reducer_.finish();
    in_step_ = window_open_ = false;
    route_.end_update(user);
    double weight = std::numeric_limits<double>::quiet_NaN();
    if constexpr (!stream_of<Communicator>::asynchronous) weight = reducer_.total_weight();
    times_.buckets = reducer_.times();
    times_.replanned = order_.watches() && reducer_.together([&] { return plan_anew(); });
    record();
    return {.updated = true, .weight = weight, .step = updates_++};
  }

  /// A whole last micro-step of weight 0, in place of begin, marks and finish: for a rank without data, and to cut an update short.
  step_result contribute_nothing() { return contribute_nothing(comm().compute_stream()); }
  step_result contribute_nothing(const handle& user) {
    begin({.weight = 0});
    mark_all_ready(user);
    return finish(user);
  }

  /// Σ weights of all ranks in the last update. Where `step_result` could not say it, this waits until the device knows it.
  double total_weight() {
    if (window_open_) throw usage_error("total_weight() inside an update: finish() it first", here());
    reducer_.rethrow();
    return updates_ == 0 ? 0 : reducer_.total_weight();
  }

  /// Gives every rank rank 0's states, such as running statistics, which each rank has from its own examples. All ranks call it together,
  /// between two updates; blocks. `usage_error` inside an update; `mismatch_error` if their lengths differ from rank to rank.
  void broadcast_state() {
    if (window_open_) throw usage_error("broadcast_state() inside an update: finish() it first", here());
    at_here([&] { model_.check(), refuse_capture(comm(), "broadcast_state()"); });
    reducer_.together([&] { broadcast_values(comm(), {}, model_.states_now()); });
  }

  /// Buckets of this update whose mean is in place, here.
  std::size_t completed_buckets() const { return reducer_.completed(); }

  /// The plan in use. The first update's `finish()` may have replaced the one that was made at the start.
  const bucket_plan& plan() const { return *plan_; }
  bool replanned() const { return metrics_.plans > 1; }
  series_view<parameter> parameters() const { return parameters_; }
  /// The bucket plan as a table.
  std::string describe_plan() const {
    return describe(*plan_, parameters_, storage_.how(), reducer_.strategies()) +
           (replanned() ? "planned anew after the first update, from the order in which rank 0's gradients became ready\n" : "");
  }
  gradsync::progress progress() const { return reducer_.how(); }
  gradsync::layout layout() const { return storage_.how(); }
  const gradsync::metrics& metrics() const { return metrics_; }

  memory_report memory() const {
    memory_report report{.buckets = storage_.bytes(), .partial_sums = window_.bytes(), .scratch = reducer_.scratch_bytes()};
    for (const parameter& p : parameters_) report.values += p.bytes();
    for (const state_entry& s : model_.states_now()) report.states += s.bytes();
    report.gradients = storage_.how() == layout::adopted && report.buckets > 0 ? 0 : report.values;
    return report;
  }

 private:
  // An error of the construction names this rank.
  template <class F>
  static decltype(auto) on_rank(const collective<Communicator>& sum, F&& f) {
    return locating([&] { return place_of(sum.communicator(), sum.communicator().rank()); }, f);
  }

  synchronizer(const collective<Communicator>& sum, const synchronizer_options& options, watched_model<Model>&& model)
      : options_(decided(expect_driver(sum.communicator(), options), Communicator::peer_addressable ? layout::in_place : layout::packed)),
        sum_(sum), model_(std::move(model)), parameters_(model_.parameters()),
        plan_(std::make_unique<bucket_plan>(make_plan(parameters_, caps_of(options_)))), index_(parameters_), tracker_(*plan_, parameters_),
        window_(options.accumulation, parameters_),
        storage_(on_rank(sum, [&] { return bucket_storage(agreed(), parameters_, options_.layout, memory_for_sums()); })),
        reducer_(sum_, *plan_, parameters_, storage_, options.progress), route_(parameters_, window_, storage_, reducer_),
        order_(replans(options_, sum_.reproducibility()) ? parameters_.size() : 0) {
    broadcast_values(comm(), parameters_, model_.states_now());
    metrics_.buckets.resize(plan_->buckets.size());
  }

  Communicator& comm() const { return sum_.communicator(); }
  auto memory_for_sums() const {
    return [&comm = comm()](std::size_t bytes) { return comm.allocate(bytes); };
  }
  place here() const { return place_of(comm(), comm().rank(), updates_); }
  // Adds rank and step to an error of a part that does not know them.
  template <class F>
  decltype(auto) at_here(F&& f) const {
    return locating([&] { return here(); }, f);
  }

  // The plan, once all ranks are known to make the same one.
  const bucket_plan& agreed() {
    check_start(sum_, parameters_, model_.states_now(), shared_options(options_));
    return *plan_;
  }

  usage_error unknown() const {
    at_here([&] { model_.check(); });  // if the model has changed, that is why
    return usage_error("mark_ready() of an object that is no parameter of the synchronizer's model; mark the object itself, not a copy",
                       here());
  }

  void open() { in_step_ ? reducer_.rethrow() : begin(); }

  void mark(std::size_t i, const handle& user) {
    at_here([&] {
      if (tracker_.missing_marks(i) == 1) route_.take(i, user);  // before that, other aliases' layers still have to add their parts
      tracker_.mark(i);
    });
    if (tracker_.missing_marks(i) > 0 || !window_.last()) return;
    order_.note(i);
    for (std::size_t b = 0; tracker_.next_full(b);) route_.launch();
    reducer_.poll();
  }

  // Once, at the end of the first update: buckets by the order that it has shown. Whether they are others now; all slots stay in place.
  bool plan_anew() {
    bucket_plan next = make_plan(parameters_, caps_of(options_), order_.agreed(comm()));
    order_.stop();
    if (next == *plan_) return false;
    *plan_ = std::move(next);
    tracker_ = ready_tracker(*plan_, parameters_);
    storage_.regroup();
    reducer_.replan();
    return true;
  }

  void record() {
    times_.end = std::chrono::steady_clock::now();
    times_.step = updates_;
    metrics_.add(times_);
    if (times_.replanned) metrics_.restart(plan_->buckets.size());
    if (options_.recorder != nullptr) options_.recorder->record(times_);
  }

  synchronizer_options options_;
  collective<Communicator> sum_;
  watched_model<Model> model_;
  series_view<parameter> parameters_;
  std::unique_ptr<bucket_plan> plan_;
  address_index index_;
  ready_tracker tracker_;
  window window_;
  bucket_storage storage_;
  reducer<Communicator> reducer_;
  route<Communicator> route_;
  ready_order order_;
  gradsync::metrics metrics_;
  step_times times_;
  bool in_step_ = false, window_open_ = false;
  std::int64_t updates_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gradsync

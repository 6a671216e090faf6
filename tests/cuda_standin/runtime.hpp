// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Inside of the stand-in: operations, streams, events, graphs, and the one object that holds them. A stand-in for another library that
/// works on streams, such as NCCL, begins its functions with `call` and brings its work in by `enqueue`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "memory.hpp"
#include "standin.hpp"

namespace standin {

struct completion {
  bool reached = false;
  double time = 0;  // how many operations had run by then
};
using completed = std::shared_ptr<completion>;

/// Work on a stream. It runs when its stream has come to it, all of `after` is reached and `ready` says so.
struct operation {
  const char* what = "";
  std::function<void()> run = {};
  std::vector<int> reaches = {};                 ///< devices whose memory it may touch
  std::function<bool()> ready = {};              ///< asked, under the lock, whenever it might run; empty: yes
  bool on_host = false;                          ///< runs without the lock and may not touch device memory
  std::function<void(operation&)> renewed = {};  ///< what each launch of a graph does to its copy
  std::vector<completed> after = {};
  completed done = nullptr;
  std::uint64_t number = 0;  ///< in the order of the calls, over all streams
};

struct graph_node {
  operation work;
  int device;
  std::set<std::size_t> after;  // earlier nodes
};

/// A capture under way, or ended.
struct capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  unsigned long long id;
  struct queue* origin;
  std::vector<graph_node> nodes = {};
  bool valid = true;
  bool open = true;
  CUgraph_st* graph = nullptr;  // what it becomes, once somebody has asked
};

/// A stream, or a branch of a graph that runs.
struct queue {
  unsigned number;
  int device;
  unsigned flags;
  int priority = 0;
  bool legacy = false;
  bool alive = true;  // until it is destroyed; its work goes on
  bool busy = false;  // a host function of it runs
  std::deque<operation> work = {};
  completed last = nullptr;                // of its newest operation
  std::shared_ptr<capture> captured = {};  // that it takes part in
  std::set<std::size_t> tips = {};         // nodes which its next one comes after

  bool blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};

}  // namespace standin

// CUDA leaves these types to the runtime.
struct CUstream_st : standin::queue {};

struct CUevent_st {
  unsigned flags;
  int device;
  standin::completed recorded = nullptr;
  std::shared_ptr<standin::capture> captured = {};  // in which it was recorded last
  std::set<std::size_t> tips = {};
};

struct CUuserObject_st {
  void* object;
  cudaHostFn_t destroy;
  unsigned references;
};

struct CUgraph_st {
  std::vector<standin::graph_node> nodes = {};
  std::map<cudaUserObject_t, unsigned> kept = {};
};

struct CUgraphExec_st : CUgraph_st {
  standin::completed last = nullptr;
};

namespace standin {

struct device_state {
  cudaError_t failure = cudaSuccess;  // sticks until the device is reset
  std::set<int> peers = {};           // whose memory its kernels may touch
  CUstream_st* legacy = nullptr;
  std::map<std::thread::id, CUstream_st*> per_thread = {};
};

class runtime {
 public:
  static runtime& get();

  // --- streams: under the lock, as all that follows -----------------------------------------------------------------------------------
  CUstream_st& add_stream(int device, unsigned flags, int priority);
  void renumber();                              ///< numbers new streams from where they begin, so that a seed finds the same ones again
  CUstream_st* stream_of(cudaStream_t handle);  ///< of the calling thread's device if it is a default one; nullptr: there is no such stream
  void remove_stream(CUstream_st& stream);      ///< once its work is done

  /// The one way in for work: to the end of its stream, behind the legacy stream where CUDA says so, or into the graph that is captured.
  cudaError_t enqueue(CUstream_st& stream, operation work);

  /// Devices whose memory work of this one may touch.
  std::vector<int> reach_of(int device) const;

  // --- progress ------------------------------------------------------------------------------------------------------------------------
  /// Runs operations until `until` holds. The failure of `device` if there is one; cudaErrorLaunchTimeout when the patience ends.
  cudaError_t wait(int device, const std::function<bool()>& until);
  std::vector<completed> pending(int device) const;  ///< the newest operation of each stream
  cudaError_t wait_for(int device, std::vector<completed> all);

  /// For a call that asks how far the device is.
  void look();
  void go_on();
  void fail(int device, cudaError_t error, const std::string& why);

  /// Where the manual says "may".
  bool toss() { return random() % 2 == 0; }

  // --- capture -------------------------------------------------------------------------------------------------------------------------
  /// Of a call that no capture sees, such as cudaMalloc: cudaSuccess, or an error that spoils the capture.
  cudaError_t unsafe_now();
  cudaError_t spoil(const std::shared_ptr<capture>& spoiled, cudaError_t error);

  std::mutex lock;
  std::atomic<int> waiting_for_lock{0};
  std::condition_variable changed;
  std::vector<device_state> devices = std::vector<device_state>(4);
  device_memory memory;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // by their numbers
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;
  std::set<cudaUserObject_t> objects;
  unsigned destructors = 0;                        // of such objects, that have yet to return
  std::vector<std::shared_ptr<capture>> captures;  // under way
  unsigned long long last_capture = 0;
  std::map<const void*, host_twin> twins;
  std::map<const void*, std::string> kernel_names;
  std::chrono::milliseconds patience{20000};
  std::mt19937 random{0};
  unsigned salt = 0;
  order by = order::any;
  pace at = pace::host_ahead;
  std::vector<std::pair<unsigned, const char*>> log;

 private:
  // The default streams have numbers of their own: whether an earlier seed made them changes nothing.
  static constexpr unsigned first_per_thread = 100, first_stream = 1000;

  CUstream_st& insert_stream(unsigned number, int device, unsigned flags, int priority);
  bool able(queue& stream);
  bool step();
  CUstream_st& choose(const std::vector<CUstream_st*>& able_ones);
  void run(CUstream_st& stream);
  void run_on_host(CUstream_st& stream, const operation& next);
  void let_others_in();
  void print_stuck() const;
  cudaError_t capture_into(CUstream_st& stream, operation work);

  unsigned next_stream_ = first_stream, threads_seen_ = 0;
  std::uint64_t enqueued_ = 0, ran_ = 0;
  unsigned ran_last_ = 0;  // number of the stream
};

/// What belongs to a host thread.
struct thread_state {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool in_host_function = false;
  std::unique_lock<std::mutex>* held = nullptr;
};
thread_state& this_thread();

/// Every call into the runtime: takes the lock, answers with the failure of the thread's device if there is one, lets the devices go on as
/// the pace has it, and keeps an error for cudaGetLastError.
cudaError_t call(const std::function<cudaError_t(runtime&)>& body);

/// The same for a call that frees or destroys: it does so even if the device has failed, and then answers with the failure.
cudaError_t releasing_call(const std::function<cudaError_t(runtime&)>& body);

/// The same for a call that no capture sees: it allocates, or waits, or asks.
cudaError_t unsafe_call(const std::function<cudaError_t(runtime&)>& body);

/// The same for a call on a stream, which has to exist.
cudaError_t stream_call(cudaStream_t handle, const std::function<cudaError_t(runtime&, CUstream_st&)>& body);

}  // namespace standin

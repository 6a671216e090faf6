// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Communicators: how they are made, divided, watched and ended. And NCCL's memory.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "tests/cuda_standin/nccl_model.hpp"
#include "tests/cuda_standin/runtime.hpp"

namespace standin::nccl {

// A thread that was left behind may still wait when the program ends.
std::mutex& state = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
policy current;
std::uint64_t operations_begun = 0;

namespace {

std::vector<std::string> all_faults;
// Never freed, so that a handle in use after its end is known for what it is.
std::set<ncclComm*>& communicators = *new std::set<ncclComm*>;
std::uint64_t dice = 1, ids_made = 0;

// Where ranks wait for each other on the host.
struct table {
  struct seat {
    int color, key;
    ncclComm* made;
  };
  std::map<int, seat> seats;  // by rank
  bool settled = false;
  int left = 0;
  ncclResult_t outcome = ncclSuccess;
};
std::map<std::string, table> tables;

ncclResult_t refuse(ncclResult_t why, std::string text) {
  const std::lock_guard hold(state);
  fault(std::move(text));
  return why;
}

// The ranks of one color, in the order of their keys, become a clique.
void found(table& t, int color) {
  std::vector<std::pair<std::pair<int, int>, ncclComm*>> members;
  for (auto& [rank, seat] : t.seats)
    if (seat.color == color) members.push_back({{seat.key, rank}, seat.made});
  std::sort(members.begin(), members.end());
  const auto ranks = std::make_shared<clique>(static_cast<int>(members.size()));
  std::set<int> devices;
  for (std::size_t r = 0; r < members.size(); ++r) {
    ncclComm* comm = ranks->members[r] = members[r].second;
    comm->ranks = ranks, comm->rank = static_cast<int>(r);
    if (current.failing_rank == comm->rank) comm->fails_at = current.failing_operation;
    devices.insert(comm->device);
    add(comm);
  }
  // init.cc: "Duplicate GPU detected"
  if (devices.size() != members.size()) t.outcome = ncclInvalidUsage;
}

// Returns when all `expected` ranks sit at the table.
ncclResult_t meet(const std::string& name, int expected, int rank, table::seat seat, ncclComm_t* made) {
  std::unique_lock hold(state);
  table& t = tables[name];
  if (t.seats.contains(rank)) {
    fault("two ranks " + std::to_string(rank) + " at one communicator");
    return ncclInvalidUsage;
  }
  t.seats[rank] = seat;
  if (static_cast<int>(t.seats.size()) == expected) {
    std::set<int> colors;
    for (const auto& [r, s] : t.seats)
      if (s.color != NCCL_SPLIT_NOCOLOR) colors.insert(s.color);
    for (const int color : colors) found(t, color);
    current.failing_rank = -1;
    t.settled = true;
    changed.notify_all();
  }
  if (!changed.wait_for(hold, std::chrono::seconds(30), [&] { return t.settled; })) {
    fault("a rank did not come to " + name);
    return ncclSystemError;
  }
  const ncclResult_t outcome = t.outcome;
  if (++t.left == expected) tables.erase(name);
  *made = outcome == ncclSuccess && seat.color != NCCL_SPLIT_NOCOLOR ? seat.made : nullptr;
  return outcome;
}

// nccl.h: NCCL_CONFIG_INITIALIZER must have been assigned. init.cc: minCTAs and maxCTAs are refused unless both are set, and ordered.
ncclResult_t look_at(const ncclConfig_t* config) {
  if (config == nullptr) return ncclSuccess;
  if (config->magic != 0xcafebeef || config->size > sizeof(ncclConfig_t))
    return refuse(ncclInvalidArgument, "a config that was not initialised");
  const bool min = config->minCTAs != NCCL_CONFIG_UNDEF_INT, max = config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (min != max || (min && (config->minCTAs <= 0 || config->minCTAs > config->maxCTAs))) return ncclInvalidArgument;
  if (config->blocking == 0) return refuse(ncclInvalidArgument, "communicators that don't block are not modelled");
  return ncclSuccess;
}

ncclComm* new_communicator() {
  auto* comm = new ncclComm;
  cudaGetDevice(&comm->device);
  return comm;
}

std::string describe(const ncclComm* comm) { return "rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->ranks->size); }

// What must be over before a communicator goes; the user guide says so of graphs and registered buffers.
void look_at_leavings(ncclComm* comm, const char* what) {
  if (*comm->captured > 0) fault(std::string(what) + " of " + describe(comm) + " while a graph is alive that captured its operations");
  if (!comm->registered.empty()) fault(std::string(what) + " of " + describe(comm) + " with memory registered");
}

}  // namespace

void fault(std::string text) { all_faults.push_back(std::move(text)); }

bool chance() {
  dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
  return (dice & 64) != 0;
}

void add(ncclComm* comm) { communicators.insert(comm); }
bool known(const ncclComm* comm) { return communicators.contains(const_cast<ncclComm*>(comm)); }

inside::inside(ncclComm* comm, const char* what) : comm_(comm) {
  const std::lock_guard hold(state);
  if (!known(comm) || comm->now == ncclComm::phase::gone) {
    fault(std::string(what) + " with a communicator that has ended");
    result = ncclInvalidArgument, comm_ = nullptr;
  } else if (comm->calls > 0 && comm->user != std::this_thread::get_id()) {
    fault(std::string(what) + ": two threads at once use " + describe(comm));  // user guide, "Thread safety"
    result = ncclInvalidUsage, comm_ = nullptr;
  } else {
    if (comm->now != ncclComm::phase::ready) result = ncclInvalidUsage;
    if (comm->error != ncclSuccess && result == ncclSuccess) result = comm->error;
    comm->user = std::this_thread::get_id();
    ++comm->calls;
  }
}
inside::~inside() {
  if (comm_ == nullptr) return;
  const std::lock_guard hold(state);
  --comm_->calls;
}

void set(const policy& chosen, std::uint64_t seed) {
  const std::lock_guard hold(state);
  current = chosen;
  dice = (seed + 1) * 0x9e3779b97f4a7c15u;
  all_faults.clear();
}

std::vector<std::string> faults() {
  const std::lock_guard hold(state);
  return all_faults;
}

int alive() {
  const std::lock_guard hold(state);
  return static_cast<int>(
      std::count_if(communicators.begin(), communicators.end(), [](const ncclComm* c) { return c->now != ncclComm::phase::gone; }));
}

std::uint64_t begun() {
  const std::lock_guard hold(state);
  return operations_begun;
}

}  // namespace standin::nccl

using namespace standin::nccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

// With NCCL_COMM_ID=host:port all processes get the same id without talking to each other: user guide, "Environment variables".
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard hold(state);
  const char* named = std::getenv("NCCL_COMM_ID");
  std::memset(id, 0, sizeof *id);
  if (named != nullptr) std::snprintf(id->internal, sizeof id->internal, "%s", named);
  else std::snprintf(id->internal, sizeof id->internal, "id %llu", static_cast<unsigned long long>(++ids_made));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (in_group()) return refuse(ncclInvalidUsage, "communicators made in a group are not modelled");
  if (rank < 0 || rank >= size) return ncclInvalidArgument;
  if (const ncclResult_t bad = look_at(config); bad != ncclSuccess) return bad;
  id.internal[sizeof id.internal - 1] = 0;
  return meet(std::string("init ") + id.internal, size, rank, {0, rank, new_communicator()}, comm);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  const inside here(comm, "ncclCommSplit");
  if (here.result != ncclSuccess) return here.result;
  if (const ncclResult_t bad = look_at(config); bad != ncclSuccess) return bad;
  const std::string name =
      "split " + std::to_string(reinterpret_cast<std::uintptr_t>(comm->ranks.get())) + " " + std::to_string(comm->divisions++);
  return meet(name, comm->ranks->size, comm->rank, {color, key, new_communicator()}, made);
}

#if NCCL_VERSION_CODE >= 22700
// enqueue: the list is sorted where it lies. NCCL_SHRINK_ABORT ends what is under way first.
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config, int flags) {
  std::string name;
  int left = 0;
  {
    const std::lock_guard hold(state);
    if (!known(comm) || comm->now == ncclComm::phase::gone) {
      fault("ncclCommShrink with a communicator that has ended");
      return ncclInvalidArgument;
    }
    std::sort(excluded, excluded + count);
    if (flags == NCCL_SHRINK_ABORT && comm->now == ncclComm::phase::ready) comm->now = ncclComm::phase::revoked;
    left = comm->ranks->size - count;
    name = "shrink " + std::to_string(reinterpret_cast<std::uintptr_t>(comm->ranks.get())) + " " + std::to_string(comm->divisions++);
  }
  if (const ncclResult_t bad = look_at(config); bad != ncclSuccess) return bad;
  return meet(name, left, comm->rank, {0, comm->rank, new_communicator()}, made);
}
#endif

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const inside here(comm, "ncclCommFinalize");
  if (here.result != ncclSuccess) return here.result;
  const std::lock_guard hold(state);
  look_at_leavings(comm, "ncclCommFinalize");
  if (*comm->outstanding > 0) {  // it would wait for them
    fault("ncclCommFinalize of " + describe(comm) + " before its operations are done");
    return ncclInvalidUsage;
  }
  comm->now = ncclComm::phase::finalized;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const inside here(comm, "ncclCommDestroy");
  const std::lock_guard hold(state);
  if (!known(comm) || comm->now == ncclComm::phase::gone) return ncclInvalidArgument;
  look_at_leavings(comm, "ncclCommDestroy");
  if (comm->now == ncclComm::phase::ready && *comm->outstanding > 0)
    fault("ncclCommDestroy of " + describe(comm) + " before its operations are done");
  comm->now = ncclComm::phase::gone;
  return ncclSuccess;
}

// What waits on the devices looks again.
static ncclResult_t end_waits() {
  standin::call([](standin::runtime& r) { return r.changed.notify_all(), cudaSuccess; });
  return ncclSuccess;
}

static void take_time() {
  std::unique_lock hold(state);
  const auto time = current.ending;
  hold.unlock();
  std::this_thread::sleep_for(time);
}

// These two may come from another thread while the first one is in a call: user guide, "Fault tolerance".
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  take_time();
  {
    const std::lock_guard hold(state);
    if (!known(comm) || comm->now == ncclComm::phase::gone) {
      fault("ncclCommAbort of a communicator that has ended");
      return ncclInvalidArgument;
    }
    comm->now = ncclComm::phase::gone;
  }
  return end_waits();
}

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  take_time();
  {
    const std::lock_guard hold(state);
    if (!known(comm) || comm->now == ncclComm::phase::gone || flags != 0) return ncclInvalidArgument;
    comm->now = ncclComm::phase::revoked;
  }
  return end_waits();
}
#endif

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard hold(state);
  if (!known(comm) || comm->now == ncclComm::phase::gone) {
    fault("ncclCommGetAsyncError of a communicator that has ended");
    return ncclInvalidArgument;
  }
  *error = comm->error;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return texts[result];
}
const char* ncclGetLastError(ncclComm_t) { return "the stand-in keeps no log"; }

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) { return *count = comm->ranks->size, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = comm->rank, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) { return *device = comm->device, ncclSuccess; }

ncclResult_t ncclMemAlloc(void** p, size_t size) {
  const std::size_t pages = (size + 4095) / 4096 * 4096;  // nccl.h: it may be larger than what was asked for
  return current.memory_works && cudaMalloc(p, pages) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* p) {
  {
    const std::lock_guard hold(state);
    for (const ncclComm* comm : communicators)
      for (const auto& [handle, range] : comm->registered)
        if (comm->now != ncclComm::phase::gone && range.first == p)
          fault("ncclMemFree of memory that " + describe(comm) + " has registered");
  }
  return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t enter(ncclComm_t comm, void* p, size_t size, void** handle) {
  const std::lock_guard hold(state);
  static std::uintptr_t handles = 0x1000;
  *handle = reinterpret_cast<void*>(handles += 16);
  comm->registered[*handle] = {static_cast<const std::byte*>(p), size};
  return ncclSuccess;
}
static ncclResult_t forget(ncclComm_t comm, void* handle, const char* what) {
  const inside here(comm, what);
  const std::lock_guard hold(state);
  if (!known(comm) || comm->registered.erase(handle) == 0) {
    fault(std::string(what) + " of what is not registered");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* p, size_t size, void** handle) {
  const inside here(comm, "ncclCommRegister");
  if (here.result != ncclSuccess) return here.result;
  return current.local_works ? enter(comm, p, size, handle) : ncclInvalidUsage;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) { return forget(comm, handle, "ncclCommDeregister"); }

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* p, size_t size, ncclWindow_t* window, int) {
  const inside here(comm, "ncclCommWindowRegister");
  if (here.result != ncclSuccess) return here.result;
  if (reinterpret_cast<std::uintptr_t>(p) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) return ncclInvalidArgument;
  return current.windows_work ? enter(comm, p, size, reinterpret_cast<void**>(window)) : ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) { return forget(comm, window, "ncclCommWindowDeregister"); }
#endif

}  // extern "C"

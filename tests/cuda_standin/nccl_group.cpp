// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Groups and the calls that go into them. nccl.h, "Group semantics": calls between ncclGroupStart and ncclGroupEnd are enqueued by the
// latter, together; groups nest, and belong to the calling thread.

#include <algorithm>

#include "tests/cuda_standin/nccl_model.hpp"

namespace standin::nccl {

namespace {

struct group {
  int depth = 0;
  ncclResult_t failed = ncclSuccess;
  std::vector<std::pair<ncclComm*, task>> tasks;
};
thread_local group open;

ncclResult_t refuse(ncclResult_t why, const std::string& text) {
  const std::lock_guard hold(state);
  fault(text);
  return why;
}

// The environment variable NCCL_CHECK_POINTERS=1 asks NCCL for the same.
bool lies_on(int device, const void* p) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, p) == cudaSuccess && attributes.type == cudaMemoryTypeDevice && attributes.device == device;
}

ncclResult_t look_at(const ncclComm* comm, const task& t) {
  const std::string name = name_of(t.what);
  int device = -1;
  cudaGetDevice(&device);
  // User guide, "Thread safety" and "Creating a communicator": the communicator's device has to be current.
  if (device != comm->device)
    return refuse(ncclInvalidUsage, name + " with device " + std::to_string(device) + " current, not the communicator's");
  if (t.peer < 0 || t.peer >= comm->ranks->size) return refuse(ncclInvalidArgument, name + ": no rank " + std::to_string(t.peer));
  if (!t.collective() && t.peer == comm->rank) return refuse(ncclInvalidArgument, name + " to oneself");
  const bool sums = t.what == call::all_reduce || t.what == call::reduce || t.what == call::reduce_scatter;
  if (sums && t.op != ncclSum && t.op != ncclMin && t.op != ncclMax)
    return refuse(ncclInvalidArgument, name + ": this operation is not modelled");
  if (sums && bytes_of(t.type) == 2) return refuse(ncclInvalidArgument, name + ": this type is not modelled");
  if (input_bytes(t, comm->rank, comm->ranks->size) > 0 && !lies_on(comm->device, t.from))
    return refuse(ncclInvalidArgument, name + " of memory that is not the device's");
  if (output_bytes(t, comm->rank, comm->ranks->size) > 0 && !lies_on(comm->device, t.to))
    return refuse(ncclInvalidArgument, name + " into memory that is not the device's");
  return ncclSuccess;
}

ncclResult_t flush() {
  std::vector<std::pair<ncclComm*, task>> all;
  all.swap(open.tasks);
  ncclResult_t result = std::exchange(open.failed, ncclSuccess);
  while (!all.empty()) {
    ncclComm* comm = all[0].first;
    std::vector<task> tasks;
    for (const auto& [owner, t] : all)
      if (owner == comm) tasks.push_back(t);
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& one) { return one.first == comm; }), all.end());
    {
      const std::lock_guard hold(state);
      comm->calls -= static_cast<int>(tasks.size());
      if (comm->ended()) result = ncclInvalidUsage;
    }
    const auto elsewhere = [&](const task& t) { return t.stream != tasks[0].stream; };
    if (std::any_of(tasks.begin(), tasks.end(), elsewhere))
      result = refuse(ncclInvalidUsage, "one group, one communicator and two streams are not modelled");
    if (result == ncclSuccess) launch(comm, std::move(tasks));
  }
  return result;
}

ncclResult_t enqueue(ncclComm* comm, const task& t) {
  ncclResult_t result;
  {
    const inside here(comm, name_of(t.what).c_str());
    result = here.result;
    if (result == ncclSuccess) result = look_at(comm, t);
    std::this_thread::yield();                   // so that a second thread is met
    if (result == ncclSuccess && t.count > 0) {  // count 0: enqueue.cc drops it before it becomes a task
      const std::lock_guard hold(state);
      ++comm->calls;  // until the group ends
      comm->user = std::this_thread::get_id();
      open.tasks.emplace_back(comm, t);
    }
  }
  if (result != ncclSuccess) open.failed = result;
  if (open.depth > 0) return result;
  const ncclResult_t end = flush();
  return result != ncclSuccess ? result : end;
}

}  // namespace

bool in_group() { return open.depth > 0; }

void end_of_thread() {
  if (open.depth == 0) return;
  refuse(ncclInvalidUsage, "a thread ended with " + std::to_string(open.depth) + " groups unclosed");
  const std::lock_guard hold(state);
  for (const auto& [comm, t] : open.tasks) --comm->calls;
  open = {};
}

}  // namespace standin::nccl

using standin::nccl::call;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++standin::nccl::open.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (standin::nccl::open.depth == 0) return standin::nccl::refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --standin::nccl::open.depth > 0 ? ncclSuccess : standin::nccl::flush();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::all_reduce, from, to, count, type, op, 0, stream});
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::reduce, from, to, count, type, op, root, stream});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::broadcast, from, to, count, type, ncclSum, root, stream});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::all_gather, from, to, count, type, ncclSum, 0, stream});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::reduce_scatter, from, to, count, type, op, 0, stream});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::send, from, nullptr, count, type, ncclSum, peer, stream});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return standin::nccl::enqueue(comm, {call::recv, nullptr, to, count, type, ncclSum, peer, stream});
}

}  // extern "C"

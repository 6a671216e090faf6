// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Streams that capture, and graphs.
#include <algorithm>

#include "runtime.hpp"

using namespace standin;

namespace {

// Whether each node comes before one of the tips: then nothing was left on a stream that forked.
bool all_joined(const capture& c, const std::set<std::size_t>& tips) {
  std::set<std::size_t> found;
  std::vector<std::size_t> left(tips.begin(), tips.end());
  while (!left.empty()) {
    const std::size_t node = left.back();
    left.pop_back();
    if (found.insert(node).second) left.insert(left.end(), c.nodes[node].after.begin(), c.nodes[node].after.end());
  }
  return found.size() == c.nodes.size();
}

// Its destructor is called on a thread of CUDA's own, at once or later.
void release(runtime& r, cudaUserObject_t object, unsigned count) {
  object->references -= count;
  if (object->references > 0) return;
  r.objects.erase(object);
  ++r.destructors;
  std::thread([&r, object, late = r.toss()] {
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    this_thread().in_host_function = true;
    object->destroy(object->object);
    delete object;
    const std::lock_guard hold(r.lock);
    --r.destructors;
    r.changed.notify_all();
  }).detach();
}

void release_all(runtime& r, const std::map<cudaUserObject_t, unsigned>& kept) {
  for (const auto& [object, count] : kept) release(r, object, count);
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.captured) return cudaStreamCaptureStatusNone;
  return stream.captured->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

// Each node becomes a branch of its own, so that they run in any order that their edges allow.
cudaError_t launch(runtime& r, CUgraphExec_st& graph, CUstream_st& stream) {
  operation begin{.what = "graph begins"};
  if (graph.last && !graph.last->reached) begin.after = {graph.last};  // one launch of it after the other
  if (const auto error = r.enqueue(stream, std::move(begin)); error != cudaSuccess) return error;
  const completed began = stream.last;
  std::vector<completed> done;
  for (const graph_node& node : graph.nodes) {
    CUstream_st& branch = r.add_stream(node.device, cudaStreamNonBlocking, stream.priority);
    branch.alive = false;  // gone with its work
    operation work = node.work;
    if (work.renewed) work.renewed(work);
    work.after.push_back(began);
    for (const std::size_t earlier : node.after) work.after.push_back(done[earlier]);
    r.enqueue(branch, std::move(work));
    done.push_back(branch.last);
  }
  const auto error = r.enqueue(stream, {.what = "graph ends", .after = std::move(done)});
  graph.last = stream.last;
  return error;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (stream.legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream.captured) return cudaErrorIllegalState;
    stream.captured = std::make_shared<capture>(capture{mode, std::this_thread::get_id(), ++r.last_capture, &stream});
    stream.tips.clear();
    r.captures.push_back(stream.captured);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    *graph = nullptr;
    const auto c = stream.captured;
    if (!c) return cudaErrorIllegalState;
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
    if (c->origin != &stream) return r.spoil(c, cudaErrorStreamCaptureUnmatched);
    const bool valid = c->valid, joined = all_joined(*c, stream.tips);
    c->open = false;
    std::erase(r.captures, c);
    for (const auto& other : r.streams)
      if (other->captured == c) {
        other->captured.reset();
        other->tips.clear();
      }
    if (!valid || !joined) {
      if (c->graph) r.graphs.erase(c->graph), release_all(r, c->graph->kept);
      delete c->graph;
      return valid ? cudaErrorStreamCaptureUnjoined : cudaErrorStreamCaptureInvalidated;
    }
    *graph = c->graph ? c->graph : new CUgraph_st;
    (*graph)->nodes = c->nodes;
    r.graphs.insert(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (stream.legacy)
      for (const auto& other : r.streams)
        if (other->captured && other->blocking() && other->device == stream.device) return cudaErrorStreamCaptureImplicit;
    *status = status_of(stream);
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count) {
  if (dependencies || edges || count) return cudaErrorNotSupported;
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, size_t* count) {
  if (dependencies || count) return cudaErrorNotSupported;
#endif
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    *status = status_of(stream);
    if (!stream.captured) return cudaSuccess;
    if (id) *id = stream.captured->id;
    if (graph) {  // it can keep objects already; what is captured it has at the end
      CUgraph_st*& made = stream.captured->graph;
      if (!made) r.graphs.insert(made = new CUgraph_st);
      *graph = made;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(this_thread().mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&](runtime& r) {
    if (!r.graphs.count(graph)) return cudaErrorInvalidValue;
    if (nodes) return cudaErrorNotSupported;  // they can be counted only
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call([&](runtime& r) {
    if (!r.graphs.count(graph)) return cudaErrorInvalidValue;
    *executable = new CUgraphExec_st{{*graph}, nullptr};
    for (auto& [object, count] : (*executable)->kept) object->references += count;
    r.executables.insert(*executable);
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
#endif

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  return stream_call(handle,
                     [&](runtime& r, CUstream_st&) { return r.executables.count(executable) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return stream_call(handle, [&](runtime& r, CUstream_st& stream) {
    if (!r.executables.count(executable)) return cudaErrorInvalidValue;
    if (stream.captured) return r.spoil(stream.captured, cudaErrorNotSupported);  // a graph within a graph is not modelled
    return launch(r, *executable, stream);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return releasing_call([&](runtime& r) {
    if (r.graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    release_all(r, graph->kept);
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return releasing_call([&](runtime& r) {
    if (r.executables.erase(executable) == 0) return cudaErrorInvalidValue;
    const auto last = executable->last;
    const auto kept = executable->kept;
    delete executable;
    if (!last || last->reached) {
      release_all(r, kept);
      return cudaSuccess;
    }
    // It still runs: what it retains lives until then.
    CUstream_st& after = r.add_stream(this_thread().device, cudaStreamNonBlocking, 0);
    after.alive = false;
    return r.enqueue(after, {.what = "graph is released", .run = [&r, kept] { release_all(r, kept); }, .after = {last}});
    return cudaSuccess;
  });
}

// --- what lives as long as a graph
// ----------------------------------------------------------------------------------------------------------

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* held, cudaHostFn_t destroy, unsigned references, unsigned flags) {
  return call([&](runtime& r) {
    if (!destroy || references == 0 || flags != cudaUserObjectNoDestructorSync) return cudaErrorInvalidValue;
    *object = new CUuserObject_st{held, destroy, references};
    r.objects.insert(*object);
    return cudaSuccess;
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return call([&](runtime& r) {
    if (!r.objects.count(object) || count > object->references) return cudaErrorInvalidValue;
    release(r, object, count);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  return call([&](runtime& r) {
    if (!r.graphs.count(graph) || !r.objects.count(object) || count == 0) return cudaErrorInvalidValue;
    if (flags != cudaGraphUserObjectMove) object->references += count;
    graph->kept[object] += count;
    return cudaSuccess;
  });
}

}  // extern "C"

// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// The slab that gradients are summed in: device memory made for NCCL (ncclMemAlloc) and registered with it once, where that works.
///
/// Neither is needed for right numbers: NCCL copies through buffers of its own otherwise. What was obtained can be asked for.
///
///     const nccl_slab slab = make_slab(link, 25 << 20);   // blocks; zeroed
///     std::cout << describe(slab.about);                  // 26214400 bytes from ncclMemAlloc, registered locally
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "gradsync/comm/nccl_link.hpp"
#include "gradsync/cuda/memory.hpp"

namespace gradsync {

/// What has become of a request for memory.
struct nccl_slab_description {
  std::size_t bytes = 0;
  bool from_nccl = false;  ///< by ncclMemAlloc, else by cudaMalloc
  nccl_registration registration = nccl_registration::none;
};

inline std::string describe(const nccl_slab_description& slab) {
  const std::string how = slab.registration == nccl_registration::window  ? ", registered as a window"
                          : slab.registration == nccl_registration::local ? ", registered locally"
                                                                          : ", not registered";
  return std::to_string(slab.bytes) + " bytes from " + (slab.from_nccl ? "ncclMemAlloc" : "cudaMalloc") + how;
}

namespace detail {

struct nccl_slab {
  std::shared_ptr<std::byte> data;
  nccl_slab_description about;
};

// Null where NCCL has none to give: older than 2.19, or a driver without the virtual memory calls that it needs.
inline std::shared_ptr<std::byte> memory_of_nccl(std::size_t bytes, int device) {
#if NCCL_VERSION_CODE >= 21900
  const on_device here(device);
  void* data = nullptr;
  if (ncclMemAlloc(&data, bytes) != ncclSuccess || data == nullptr) {
    cudaGetLastError();  // NCCL leaves what it met there
    return nullptr;
  }
  std::shared_ptr<std::byte> owned(static_cast<std::byte*>(data), [](std::byte* p) {
    static_cast<void>(ncclMemFree(p));  // whichever device is current: NCCL looks where the memory is
  });
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return owned;
#else
  static_cast<void>(bytes), static_cast<void>(device);
  return nullptr;
#endif
}

/// Zeroed. The memory outlives the communicator if it has to; it is no longer registered then. Freed late if graphs may use it (give_back).
inline nccl_slab make_slab(const std::shared_ptr<nccl_link>& link, std::size_t bytes) {
  if (bytes == 0) return {};
  auto memory = memory_of_nccl(bytes, link->device());
  nccl_slab_description about{.bytes = bytes, .from_nccl = memory != nullptr};
  if (memory == nullptr) memory = device_memory(bytes, link->device());
  about.registration = link->enter(memory.get(), bytes);
  std::byte* const data = memory.get();
  const auto release = [link, memory = std::move(memory)](std::byte*) mutable { link->give_back(std::move(memory)); };
  return {std::shared_ptr<std::byte>(data, release), about};
}

}  // namespace detail

}  // namespace gradsync

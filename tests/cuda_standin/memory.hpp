// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Memory of the devices, and host memory that they may reach. Each device has an arena of addresses, in which a block is readable only
/// while the arena is open. An address is used once: what was freed can't be read again, nor can the pages around a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace standin {

constexpr int no_device = -1;  ///< where pinned memory lies

struct block {
  std::uintptr_t start;
  std::size_t bytes;
  int device;                   ///< or no_device
  bool live = true;             ///< until it is freed
  bool arrived = true;          ///< not yet, while the stream that allocates it has not come to that
  bool stream_ordered = false;  ///< by cudaMallocAsync
  bool registered = false;      ///< the user's own memory, by cudaHostRegister
  std::uintptr_t first_page = 0;
  std::size_t page_bytes = 0;
};

class device_memory {
 public:
  /// Full of NaN; nullptr: there is none left.
  void* allocate(std::size_t bytes, int device, bool stream_ordered = false);
  void register_host(void* p, std::size_t bytes);

  /// Makes usable what was allocated on a stream.
  void arrive(std::uintptr_t start);

  /// What a free finds: "" if all is well, or who wrote around the block.
  std::string free(std::uintptr_t start);

  /// The block in which p lies, alive or not; nullptr: host memory that nobody registered. What was freed is found as long as nobody reuses
  /// it.
  const block* block_at(const void* p) const;
  std::string describe(const void* p) const;
  std::vector<std::string> live_blocks() const;
  std::size_t used_of(int device) const;
  void free_all();

  /// Lets whatever runs touch memory of these devices, and of no other. `close` shuts all.
  void open(const std::vector<int>& devices);
  void close();

  /// Runs f. What comes back is "", or which memory it touched that it may not; then nothing of f has been unwound.
  std::string guarded(const std::function<void()>& f);

  std::size_t device_bytes = std::size_t{4} << 30;  ///< of each device

 private:
  struct arena {
    std::uintptr_t base = 0, top = 0, end = 0;
    std::size_t used = 0;
    std::set<std::uintptr_t> live;
  };
  static constexpr std::size_t arena_bytes = std::size_t{1} << 36;

  arena& arena_of(int device);
  void protect(int device, bool readable);

  std::map<int, arena> arenas_;
  std::map<std::uintptr_t, block> blocks_;
  std::set<int> open_;
};

}  // namespace standin

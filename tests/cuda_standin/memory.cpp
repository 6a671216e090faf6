// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "memory.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standin.hpp"

namespace standin {
namespace {

constexpr unsigned char poison = 0xff;  // NaN in each floating point type
constexpr std::size_t alignment = 256;  // what cudaMalloc promises
constexpr std::size_t page = 4096;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

void protect_pages(std::uintptr_t first, std::size_t bytes, bool readable) {
  if (mprotect(reinterpret_cast<void*>(first), bytes, readable ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::perror("cuda stand-in: mprotect");
    std::abort();
  }
}

bool untouched(std::uintptr_t from, std::uintptr_t to) {
  const auto* p = reinterpret_cast<const unsigned char*>(from);
  return std::all_of(p, p + (to - from), [](unsigned char byte) { return byte == poison; });
}

std::string hexadecimal(const void* p) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", p);
  return text;
}

// --- a touch of memory that may not be touched
// --------------------------------------------------------------------------------------------

device_memory* guarded_memory = nullptr;
thread_local sigjmp_buf* way_out = nullptr;
thread_local void* touched = nullptr;
struct sigaction before_us[2];

struct sigaction& before(int signal) {
  return before_us[signal == SIGSEGV ? 0 : 1];
}

void on_fault(int signal, siginfo_t* about, void*) {
  if (guarded_memory && guarded_memory->block_at(about->si_addr)) {
    touched = about->si_addr;
    if (way_out) siglongjmp(*way_out, 1);
    const std::string said = "cuda stand-in: the host touched " + guarded_memory->describe(touched) + "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, said.data(), said.size());
    std::_Exit(139);
  }
  sigaction(signal, &before(signal), nullptr);  // somebody else's: the access repeats, and goes there
}

// Test frameworks put their own in our place.
void watch_faults(device_memory* memory) {
  guarded_memory = memory;
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    if (now.sa_sigaction == on_fault) continue;
    before(signal) = now;
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(signal, &ours, nullptr);
  }
}

}  // namespace

device_memory::arena& device_memory::arena_of(int device) {
  arena& a = arenas_[device];
  if (a.base == 0) {
    void* p = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      std::perror("cuda stand-in: mmap");
      std::abort();
    }
    a.base = reinterpret_cast<std::uintptr_t>(p);
    a.top = a.base + page;
    a.end = a.base + arena_bytes;
  }
  return a;
}

void* device_memory::allocate(std::size_t bytes, int device, bool stream_ordered) {
  arena& a = arena_of(device);
  const std::size_t room = round_up(bytes, alignment), page_bytes = round_up(room, page);
  if (page_bytes < bytes || a.used + room > device_bytes || a.top + page_bytes + page > a.end) return nullptr;
  watch_faults(this);
  block b{.start = a.top + page_bytes - room, .bytes = bytes, .device = device};
  b.stream_ordered = stream_ordered;
  b.arrived = !stream_ordered;
  b.first_page = a.top;
  b.page_bytes = page_bytes;
  protect_pages(b.first_page, page_bytes, true);
  std::memset(reinterpret_cast<void*>(b.first_page), poison, page_bytes);
  if (device != no_device && !(b.arrived && open_.count(device))) protect_pages(b.first_page, page_bytes, false);
  a.top += page_bytes + page;  // a page between blocks stays closed
  a.used += room;
  if (b.arrived) a.live.insert(b.start);
  blocks_[b.start] = b;
  return reinterpret_cast<void*>(b.start);
}

void device_memory::register_host(void* p, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(p);
  blocks_[start] = {.start = start, .bytes = bytes, .device = no_device, .registered = true};
}

void device_memory::arrive(std::uintptr_t start) {
  block& b = blocks_.at(start);
  if (!b.live || b.arrived) return;
  b.arrived = true;
  arena_of(b.device).live.insert(start);
  if (open_.count(b.device)) protect_pages(b.first_page, b.page_bytes, true);
}

std::string device_memory::free(std::uintptr_t start) {
  block& b = blocks_.at(start);
  b.live = false;
  if (b.registered) {
    blocks_.erase(start);
    return "";
  }
  arena& a = arena_of(b.device);
  a.live.erase(start);
  a.used -= round_up(b.bytes, alignment);
  protect_pages(b.first_page, b.page_bytes, true);
  const bool whole = untouched(b.first_page, b.start) && untouched(b.start + b.bytes, b.first_page + b.page_bytes);
  madvise(reinterpret_cast<void*>(b.first_page), b.page_bytes, MADV_DONTNEED);
  protect_pages(b.first_page, b.page_bytes, false);
  return whole ? "" : "somebody wrote next to " + describe(reinterpret_cast<void*>(start));
}

void device_memory::free_all() {
  std::vector<std::uintptr_t> left;
  for (const auto& [start, b] : blocks_)
    if (b.live) left.push_back(start);
  for (const auto start : left) free(start);
}

const block* device_memory::block_at(const void* p) const {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  const block& b = std::prev(next)->second;
  if (b.registered) return at < b.start + std::max<std::size_t>(b.bytes, 1) ? &b : nullptr;
  // Whatever else lies in an arena belongs to the block before it.
  const arena& a = arenas_.at(b.device);
  return at < a.end ? &b : nullptr;
}

std::string device_memory::describe(const void* p) const {
  const block* b = block_at(p);
  if (!b) return hexadecimal(p) + ", which is host memory";
  const auto offset = reinterpret_cast<std::uintptr_t>(p) - b->start;
  std::string said = hexadecimal(p) + ": byte " + std::to_string(offset) + " of a block of " + std::to_string(b->bytes) + " bytes ";
  said += b->device == no_device ? "of pinned memory" : "on device " + std::to_string(b->device);
  if (!b->live) said += ", which was freed";
  if (b->live && !b->arrived) said += ", which its stream has not allocated yet";
  return said;
}

std::vector<std::string> device_memory::live_blocks() const {
  std::vector<std::string> found;
  for (const auto& [start, b] : blocks_)
    if (b.live) found.push_back(describe(reinterpret_cast<void*>(start)));
  return found;
}

std::size_t device_memory::used_of(int device) const {
  const auto a = arenas_.find(device);
  return a == arenas_.end() ? 0 : a->second.used;
}

void device_memory::protect(int device, bool readable) {
  for (const auto start : arena_of(device).live) {
    const block& b = blocks_.at(start);
    protect_pages(b.first_page, b.page_bytes, readable);
  }
}

void device_memory::open(const std::vector<int>& devices) {
  watch_faults(this);
  const std::set<int> wanted(devices.begin(), devices.end());
  for (const int device : open_)
    if (!wanted.count(device)) protect(device, false);
  for (const int device : wanted)
    if (!open_.count(device)) protect(device, true);
  open_ = wanted;
}

void device_memory::close() {
  for (const int device : open_) protect(device, false);
  open_.clear();
}

std::string device_memory::guarded(const std::function<void()>& f) {
  sigjmp_buf here;
  sigjmp_buf* const outer = way_out;
  way_out = &here;
  if (sigsetjmp(here, 1) == 0) {
    f();
    way_out = outer;
    return "";
  }
  way_out = outer;
  return describe(touched);
}

}  // namespace standin

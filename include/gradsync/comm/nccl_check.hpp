// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Checked calls of NCCL, its groups, and its names for our element types. NCCL 2.18 and newer.
///
/// A wrong argument or use is an `nccl_usage_error`. Anything else is an `nccl_error`, a `transport_error`: the communicator is lost.
///
///     check(ncclAllReduce(p, p, n, nccl_type(dtype::float32), ncclSum, comm, stream), "ncclAllReduce");
///     // gradsync: ncclAllReduce at nccl_channel.hpp:81: unhandled system error: connection refused
#pragma once

#include <nccl.h>

#include <string>
#include <type_traits>

#include "gradsync/core/dtype.hpp"
#include "gradsync/core/error.hpp"
#include "gradsync/cuda/check.hpp"

#if NCCL_VERSION_CODE < 21800
#error "gradsync needs NCCL 2.18 or newer, which can divide communicators (ncclCommSplit)"
#endif

namespace gradsync {

/// NCCL, its network or its device failed.
struct nccl_error : transport_error {
  nccl_error(const std::string& message, ncclResult_t reason) : transport_error(message), code(reason) {}
  ncclResult_t code;
};

/// The call was wrong.
struct nccl_usage_error : usage_error {
  nccl_usage_error(const std::string& message, ncclResult_t reason) : usage_error(message), code(reason) {}
  ncclResult_t code;
};

/// NCCL's sentence for a result, and what it has logged last on this thread, where it has.
inline std::string text_of(ncclResult_t code) {
  const char* last = ncclGetLastError(nullptr);
  std::string text = ncclGetErrorString(code);
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  return text;
}

/// Throws unless `code` is ncclSuccess. Leave out file and line: they are the caller's.
inline void check(ncclResult_t code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (code == ncclSuccess) return;
  std::string place = file;
  place.erase(0, place.rfind('/') + 1);
  const std::string message = std::string(call) + " at " + place + ":" + std::to_string(line) + ": " + text_of(code);
  if (code == ncclInvalidArgument || code == ncclInvalidUsage) throw nccl_usage_error(message, code);
  throw nccl_error(message, code);
}

namespace detail {

/// Calls `f`, which calls NCCL. Where that fails, `ask` comes first, and throws if it knows why: the watchdog may have ended the
/// communicator meanwhile, and what NCCL makes of that is no news.
template <class F, class Ask>
std::invoke_result_t<F&> calling_nccl(F&& f, Ask&& ask) {
  try {
    return f();
  } catch (const error& e) {
    if (dynamic_cast<const nccl_error*>(&e) != nullptr || dynamic_cast<const nccl_usage_error*>(&e) != nullptr) ask();
    throw;
  }
}

}  // namespace detail

/// 16-bit integers have no name in NCCL; as bytes they can be moved, but not added.
constexpr ncclDataType_t nccl_type(dtype type) {
  switch (type) {
    case dtype::float32: return ncclFloat32;
    case dtype::float64: return ncclFloat64;
    case dtype::int8: return ncclInt8;
    case dtype::int32: return ncclInt32;
    case dtype::int64: return ncclInt64;
    case dtype::uint8: return ncclUint8;
    case dtype::uint32: return ncclUint32;
    case dtype::uint64: return ncclUint64;
    default: throw usage_error(std::string("NCCL cannot add ") + name_of(type));
  }
}

namespace detail {

/// NCCL calls that belong together: nothing of them begins before `end`, which the destructor makes up for while unwinding.
class nccl_batch {
 public:
  nccl_batch() { check(ncclGroupStart(), "ncclGroupStart"); }
  ~nccl_batch() {
    if (open_) static_cast<void>(ncclGroupEnd());
  }
  nccl_batch(const nccl_batch&) = delete;
  nccl_batch& operator=(const nccl_batch&) = delete;

  void end() {
    open_ = false;
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool open_ = true;
};

}  // namespace detail

}  // namespace gradsync

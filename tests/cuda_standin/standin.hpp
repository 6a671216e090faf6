// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A stand-in for the CUDA runtime: what nvcc compiled runs on the CPU, without a GPU and without a driver, in any order that CUDA allows.
///
/// It takes the place of libcudart at link time. The headers under test are unchanged, launches included; only the code of each kernel is
/// replaced by a twin on the host, which the one launch door of the library registers under GRADSYNC_CUDA_STANDIN.
///
/// Streams are queues, and nothing on them runs until it has to. Then a scheduler runs one operation after the other: any of those whose
/// stream has come to them and whose events have been recorded. Which one it takes, how far it runs while the host goes on, and what it
/// does wherever the manual says "may" is drawn from the seed, so a missing wait gives a wrong number, or an illegal address, in one of a
/// few seeds. A program with one host thread runs alike each time it is given the same seed. With several host threads the operating system
/// decides who calls first; given the same calls in the same order, the choices are the same too.
///
/// Device memory is readable only while an operation runs that may read it: the host crashes on it, with a message, and so does a device on
/// memory of another one to which it has no access. Fresh memory holds NaN; freed memory is never handed out again and can't be read.
///
/// RULES.md names the sentence of the manual that each rule rests on, and what only a GPU can confirm.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace standin {

/// Copies the arguments of a launch, and returns what runs the body of the kernel for every index.
using host_twin = std::function<void()> (*)(dim3 grid, dim3 block, void** arguments);

/// `kernel` is the address of the __global__ function.
void add_twin(const void* kernel, host_twin twin);

/// Which of the able operations runs next.
enum class order {
  any,         ///< each as likely as the other
  favourites,  ///< streams have ranks drawn by the seed; the lowest starve for as long as others can run
  last_in,     ///< the one that was enqueued last
  first_in,    ///< the one that was enqueued first
  one_stream,  ///< the same stream as before until it is stuck
};

/// How far the device comes while the host goes on.
enum class pace {
  host_ahead,    ///< nowhere: work begins when somebody waits
  between,       ///< some operations at some calls
  device_ahead,  ///< at each call, as far as it can
};

/// Starts the choices anew. Order and pace follow from the seed: all pairs of them come up within 20 seeds that follow each other.
void seed(unsigned value);
void seed(unsigned value, order by, pace at);

/// Sets the number of devices, 1 to 64, at first 4. Nothing may be alive on them.
void devices(int count);

/// Forgets errors and peer access, drops work and frees memory, for all devices. Handles that are alive stay valid.
void reset();

/// After this time without progress a wait gives up, names what is stuck on the error output and returns cudaErrorLaunchTimeout. At first
/// 20 s.
void patience(std::chrono::milliseconds time);

/// What is allocated or created and was not freed or destroyed, one line each. Waits for destructors of user objects.
std::vector<std::string> alive();

/// What ran since the seed was set, in this order: the stream's number and what it was, such as "3 kernel".
std::vector<std::string> executed();

/// Calls f, and returns what the crash would have said if the host touches memory that it may not; an empty string if it doesn't.
/// Nothing of f is unwound.
std::string host_fault(const std::function<void()>& f);

}  // namespace standin

// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Everything that needs the standard library alone.
#pragma once

#if __cplusplus < 202002L
#error "gradsync needs C++20: compile with -std=c++20 (Bazel: build --cxxopt=-std=c++20)"
#endif

#include "gradsync/collective/calibrate.hpp"
#include "gradsync/bucket/constant_plan.hpp"
#include "gradsync/collective/automatic.hpp"
#include "gradsync/collective/calibrate.hpp"
#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/cost.hpp"
#include "gradsync/collective/double_tree.hpp"
#include "gradsync/collective/direct.hpp"
#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/hierarchical.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/over_hosts.hpp"
#include "gradsync/collective/print.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/torus.hpp"
#include "gradsync/collective/simulate.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/faulty.hpp"
#include "gradsync/comm/hosts.hpp"
#include "gradsync/comm/launch.hpp"
#include "gradsync/comm/message_communicator.hpp"
#include "gradsync/comm/processes.hpp"
#include "gradsync/comm/rendezvous.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/data/distributed_sampler.hpp"
#include "gradsync/model/describe.hpp"
#include "gradsync/model/fingerprint.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "gradsync/model/for_each_state.hpp"
#include "gradsync/model/tensor_table.hpp"
#include "gradsync/optim/adamw.hpp"
#include "gradsync/optim/sgd.hpp"
#include "gradsync/synchronizer.hpp"
#include "gradsync/trace/chrome.hpp"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0

# What only a GPU can confirm, in under five minutes on one of them. Needs bash and nvcc; neither Bazel nor a network.
#
#   tests/gpu/check.sh                      builds tests/gpu/check.cu for the GPU that is there, and runs it
#   GRADSYNC_GPU_CHECK=/path tests/gpu/check.sh   takes a program that was built elsewhere
#
# NCCL is looked for in NCCL_HOME, then beside CUDA. Tools that are missing are named and left out. The exit status is 0 if all that ran
# was right. What it prints at the end is the table for the README.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
failed=0

run() {
  echo
  echo "=== $1 ==="
  shift
  timeout 240 "$@" || { failed=1; echo "=== exit status $? ==="; }
}

program=${GRADSYNC_GPU_CHECK:-}
if [[ -z $program ]]; then
  nvcc=$(command -v nvcc || echo "${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}/bin/nvcc")
  if [[ ! -x $nvcc ]]; then
    echo "no nvcc, neither on the PATH nor in CUDA_PATH, CUDA_HOME or /usr/local/cuda; and no program in GRADSYNC_GPU_CHECK" >&2
    exit 1
  fi
  nccl=${NCCL_HOME:-$(dirname "$(dirname "$nvcc")")}
  architecture=${GRADSYNC_GPU_ARCH:-native}
  echo "building with $("$nvcc" --version | tail -1), NCCL in $nccl"
  program=$build/check
  "$nvcc" -std=c++20 -O2 -lineinfo --expt-relaxed-constexpr --extended-lambda "-arch=$architecture" -Iinclude -I"$nccl/include" \
    tests/gpu/check.cu -o "$program" -L"$nccl/lib" -L"$nccl/lib64" -Xlinker -rpath -Xlinker "$nccl/lib" -lnccl -Xcompiler -pthread
fi

if command -v nvidia-smi > /dev/null; then
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,memory.total --format=csv || true
else
  echo "nvidia-smi is missing: which GPU it is, is not said"
fi
run 'right' "$program" right
sanitizer=$(command -v compute-sanitizer || echo "${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}/bin/compute-sanitizer")
for tool in memcheck racecheck; do
  if [[ -x $sanitizer ]]; then
    run "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 --kernel-name regex:gradsync "$program" right
  else
    echo "compute-sanitizer is missing: $tool is left out"
  fi
done
run 'fast' "$program" fast
exit "$failed"

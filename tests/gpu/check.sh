#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0

# What only a GPU can confirm, in five minutes at most on one of them, besides building. Needs bash and nvcc; neither Bazel nor a network.
#
#   tests/gpu/check.sh                      builds tests/gpu/check.cu for the GPU that is there, and runs it
#   GRADSYNC_GPU_CHECK=/path tests/gpu/check.sh   takes a program that was built elsewhere
#
# NCCL is looked for in NCCL_HOME, then beside CUDA. Tools that are missing are named and left out, and so is what the five minutes leave no
# time for. The exit status is 0 if all that ran was right. What it prints at the end is the table for the README.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
failed=0

# The table comes before the sanitizers, which may take what is left.
ends=0
run() {
  local name=$1 left status=0
  shift
  left=$((ends - SECONDS))
  echo
  echo "=== $name ==="
  if ((left < 5)); then
    echo "left out: the five minutes are over"
    return
  fi
  timeout "$left" "$@" || status=$?
  if ((status != 0)); then failed=1; fi
  if ((status == 124)); then
    echo "=== ended: the five minutes are over ==="
  elif ((status != 0)); then
    echo "=== exit status $status ==="
  fi
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
ends=$((SECONDS + 300))
run 'right' "$program" right
run 'fast' "$program" fast > "$build/table"
sanitizer=$(command -v compute-sanitizer || echo "${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}/bin/compute-sanitizer")
for tool in memcheck racecheck; do
  if [[ -x $sanitizer ]]; then
    run "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 --kernel-name regex:gradsync "$program" few
  else
    echo "compute-sanitizer is missing: $tool is left out"
  fi
done

echo
cat "$build/table"
exit "$failed"

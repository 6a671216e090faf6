#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0

# What nvcc made of the kernels: compiles all of them, takes them apart with cuobjdump, and looks at each.
#
#     tests/cuda/sass.sh [sm_90]
#
#   - memory is accessed by 16 bytes where it can be (LDG.E.128 and STG.E.128);
#   - no kernel spills registers or has local memory;
#   - no arithmetic on float32 flushes subnormals, and no product is fused with a sum, even under -use_fast_math. (A division is a routine
#     of fused steps, some of them flushing, which ends in the correctly rounded quotient: kernels that divide are not looked at for that.)
#
# Needs nvcc; and cuobjdump and nvdisasm on the PATH (PyPI has them as nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm).
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=${1:-sm_90}
nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}/bin/nvcc")}
PATH=$PATH:$(dirname "$nvcc")
for tool in "$nvcc" cuobjdump nvdisasm; do
  command -v "$tool" > /dev/null || { echo "sass.sh: $tool is missing: nothing was looked at" && exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$nvcc" -std=c++20 -arch="$arch" -use_fast_math -Iinclude -cubin tests/cuda/all_kernels.cu -o "$folder/all.cubin"
cuobjdump -res-usage "$folder/all.cubin" > "$folder/usage" 2>&1
cuobjdump -sass "$folder/all.cubin" | c++filt > "$folder/sass"

awk '
  /Function/ { name = $0; sub(/^.*Function */, "", name); sub(/:$/, "", name); next }
  /REG:/ { match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6)
           match($0, /LOCAL:[0-9]+/); local = substr($0, RSTART + 6, RLENGTH - 6)
           match($0, /REG:[0-9]+/); reg = substr($0, RSTART + 4, RLENGTH - 4)
           if (reg > most) most = reg
           if (stack > 0 || local > 0) { print "local memory: " name ": " $0; bad = 1 } kernels++ }
  END { printf "%d kernels, at most %d registers a thread, no local memory: %s\n", kernels, most, bad ? "NO" : "yes"; exit bad || !kernels }
' "$folder/usage"

awk '
  function conclude() {
    if (name == "") return
    ++kernels
    if (!stores) { print "no STG.E.128: " name; bad = 1 }
    if (!loads && name !~ /assign_body/) { print "no LDG.E.128: " name; bad = 1 }
    if (flushes && name !~ /divide_body|join_body|mean_body/) { print "flushes subnormals: " name; bad = 1 }
    if (fused && name ~ /fold_body/) { print "fuses a product with a sum: " name; bad = 1 }
    if (spills) { print "local memory is accessed: " name; bad = 1 }
  }
  /Function :/ { conclude(); name = $0; sub(/^.*Function : */, "", name); loads = stores = flushes = fused = spills = 0
                 if (name ~ /concluding_kernel/) name = "" ; next }
  /LDG\.E[.A-Z0-9]*\.128/ { ++loads }
  /STG\.E[.A-Z0-9]*\.128/ { ++stores }
  /F(ADD|MUL)\.FTZ/ { ++flushes }
  /[DF]FMA/ { ++fused }
  /(LDL|STL)/ { ++spills }
  END { conclude(); printf "%d kernels access memory by 16 bytes, round as the host does, and spill nothing: %s\n", kernels, bad ? "NO" : "yes"
        exit bad || !kernels }
' "$folder/sass"

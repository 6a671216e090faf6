# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.all_reduce over Gloo, which DistributedDataParallel sums its buckets with: arguments are the folder, size and rank."""
import os
import sys
import time

import torch
import torch.distributed as dist

folder, size, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cpus = sorted(os.sched_getaffinity(0))
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + folder + "/meet", rank=rank, world_size=size)
os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
pattern = torch.arange(64, dtype=torch.float32) * 0.0625
answer = open(folder + "/answer", "w") if rank == 0 else None
for line in open(folder + "/" + str(rank)):
    count, times, produced = (int(word) for word in line.split())
    count //= 4
    values = pattern.repeat((count + 63) // 64)[:count] + (1 + rank % 64)
    if times == 0:
        dist.all_reduce(values)
        expected = pattern.repeat((count + 63) // 64)[:count] * size + sum(1 + r % 64 for r in range(size))
        said = int((values != expected).sum())
    else:
        if not produced:
            dist.all_reduce(values)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(values)
        if produced:
            values.sum()
        said = (time.perf_counter() - begin) / times
    if answer:
        print(said, file=answer, flush=True)

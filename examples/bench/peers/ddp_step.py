# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0
"""A training step of PyTorch's DistributedDataParallel over Gloo, beside the same step of each rank alone: as //examples/bench:step, with
its options. Two processes of one thread, each bound to a processor; they train alone at the same time, then together, and so on in turn.

    /usr/bin/python3 examples/bench/peers/ddp_step.py --batch 64 --updates 20 --repeats 20

Debian: apt-get install python3-torch libopenblas0-pthread
"""
import argparse
import contextlib
import os
import statistics
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before it is loaded
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

RANKS = 2


def make_net(args):
    torch.manual_seed(1)
    widths = [args.side * args.side] + [int(width) for width in args.hidden.split(",")] + [10]
    layers = []
    for width, following in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train(net, images, labels, args):
    """Seconds of each of `updates` updates."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    took = []
    for _ in range(args.updates):
        begin = time.perf_counter()
        optimizer.zero_grad()
        for micro_step in range(args.micro_steps):
            more = micro_step + 1 < args.micro_steps and hasattr(net, "no_sync")
            with net.no_sync() if more else contextlib.nullcontext():
                torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
        took.append(time.perf_counter() - begin)
    return took


def run(rank, folder, args):
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + folder + "/meet", rank=rank, world_size=RANKS)
    images, labels = torch.rand(args.batch, args.side * args.side), torch.randint(10, (args.batch,))
    views = {"alone": make_net(args)}
    for name, in_place in (("DDP", False), ("DDP, views of buckets", True)):
        views[name] = torch.nn.parallel.DistributedDataParallel(make_net(args), gradient_as_bucket_view=in_place)
    took = {name: [] for name in views}
    for repeat in range(args.repeats + 1):
        for name, net in views.items():
            dist.barrier()
            seconds = train(net, images, labels, args)
            if repeat > 0:
                took[name] += seconds
    if rank == 0:
        parameters = sum(p.numel() for p in views["alone"].parameters())
        print("# %.2f M parameters, PyTorch %s, %d ranks; medians of rank 0" % (parameters / 1e6, torch.__version__, RANKS))
        alone = statistics.median(took["alone"])
        for name, seconds in took.items():
            median = statistics.median(seconds)
            print("%-22s %5d steps  %8.2f ms  %5.2f of alone" % (name, len(seconds), 1e3 * median, median / alone))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64, help="examples of each rank and micro-step")
    parser.add_argument("--side", type=int, default=28, help="of the square images")
    parser.add_argument("--hidden", default="512,512", help="widths of the hidden layers")
    parser.add_argument("--micro-steps", type=int, default=1, help="of an update")
    parser.add_argument("--updates", type=int, default=20, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=10, help="after one that is not counted")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (folder, parser.parse_args()), RANKS)

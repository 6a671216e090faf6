"""The rooms of the library, and what each may include. tests/house/layers_test.cpp holds the headers to the same table."""

ROOMS = {
    "core": [],
    "model": ["core"],
    "data": ["core"],
    "trace": ["core"],
    "bucket": ["core", "model"],
    "comm": ["core"],
    "collective": ["core", "comm", "trace"],
    "sync": ["core", "model", "bucket", "comm", "collective", "trace"],
    "optim": ["core", "model", "bucket", "collective"],
    "guard": ["core", "model", "bucket", "comm", "collective", "trace"],
}

# Rooms that start threads or wait for them. What depends on one of them links with -pthread.
THREADS = ["comm"]

# Headers that need a library of somebody else, by target: each has that library, //:gradsync has none of them, and neither has the umbrella
# header. Those of the room adapt stand above the front door: each suits it to a library that it includes.
# Where a party names what it is declared by, a second target, such as //:cuda_headers, has that instead of the libraries: tests link a stand-in.
PARTIES = {
    "cuda": {
        "declared_by": ["@local_cuda//:headers"],
        "headers": ["cuda/*"],
        "libraries": ["@local_cuda//:cudart"],
    },
    "cuda_peer": {
        "declared_by": ["//:cuda_headers"],
        "headers": ["comm/cuda_peer*"],
        "libraries": ["//:cuda"],
    },
    "mpi": {
        "headers": ["comm/mpi*"],
        "libraries": ["@local_mpi//:mpi"],
    },
    "nccl": {
        "declared_by": [
            "//:cuda_headers",
            "@local_nccl//:headers",
        ],
        "headers": ["comm/nccl*"],
        "libraries": [
            "//:cuda",
            "@local_nccl//:nccl",
        ],
    },
    # nvcc brings thrust with it.
    "thrust": {
        "headers": ["adapt/thrust"],
        "libraries": [],
    },
    "torch": {
        "headers": [
            "adapt/torch",
            "adapt/torch_parameters",
        ],
        "libraries": ["@local_torch//:torch"],
    },
}

PARTY_HEADERS = [
    "include/gradsync/%s.hpp" % header
    for party in PARTIES.values()
    for header in party["headers"]
]

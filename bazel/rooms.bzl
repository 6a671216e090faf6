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
PARTIES = {
    "mpi": {
        "headers": [
            "comm/mpi",
            "comm/mpi_endpoint",
            "comm/mpi_notes",
            "comm/mpi_process",
            "comm/mpi_session",
        ],
        "libraries": ["@local_mpi//:mpi"],
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

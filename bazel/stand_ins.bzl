"""Stand-ins for the rule repositories that Debian's bazel-bootstrap would download: they re-export the rules built into Bazel."""

_RULES = {
    "cc": [
        "cc_binary",
        "cc_import",
        "cc_library",
        "cc_proto_library",
        "cc_test",
        "cc_toolchain",
        "cc_toolchain_suite",
        "fdo_prefetch_hints",
        "fdo_profile",
        "objc_import",
        "objc_library",
    ],
    "java": [
        "java_binary",
        "java_import",
        "java_library",
        "java_lite_proto_library",
        "java_package_configuration",
        "java_plugin",
        "java_proto_library",
        "java_runtime",
        "java_test",
        "java_toolchain",
    ],
    "proto": [
        "proto_lang_toolchain",
        "proto_library",
    ],
}

def _rules_impl(ctx):
    kind = ctx.attr.kind
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", "")
    ctx.file(kind + "/BUILD", "")
    ctx.file(kind + "/defs.bzl", "".join(["{0} = native.{0}\n".format(rule) for rule in _RULES[kind]]))

_rules = repository_rule(
    implementation = _rules_impl,
    attrs = {"kind": attr.string(mandatory = True)},
)

def rules_cc_stand_in(name):
    _rules(name = name, kind = "cc")

def rules_java_stand_in(name):
    _rules(name = name, kind = "java")

def rules_proto_stand_in(name):
    _rules(name = name, kind = "proto")

def _coverage_tools_impl(ctx):
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", """\
package(default_visibility = ["//visibility:public"])
filegroup(name = "coverage_report_generator")
filegroup(name = "lcov_merger")
""")

coverage_tools_stand_in = repository_rule(implementation = _coverage_tools_impl)

"""`pvc-prebinder scheduler`: from flags to settings, then to the process."""

import argparse

from prebinder.errors import UsageError
from prebinder.flags import FLAGS, Flag, Flags, add_flags, override
from prebinder.scheduler_settings import LEASE, SchedulerSettings, SchedulingSettings

DESCRIPTION = """\
Schedules the pods that name it in spec.schedulerName: chooses nodes by what is reserved and healthy, binds the pods'
volumes and assigns the pods. Alpha. Where kube-scheduler can be configured, use the extender instead.
"""

EXAMPLES = """\
examples:
  pvc-prebinder scheduler --name zone-scheduler
      schedule pods with schedulerName: zone-scheduler by the default profile
  pvc-prebinder scheduler --config scheduler.yaml
      schedule by the profiles of a SchedulerConfiguration; a change of the file is taken over while it runs
  pvc-prebinder scheduler --name zone-scheduler --control-bind-address 127.0.0.1:10270
      also serve the port that tools and `pvc-prebinder profile` ask

exit codes:
  0 stopped by a signal   1 error   2 usage
"""


def scheduler_flags() -> Flags:
    """Return the flags: the scheduler's own, and those of the controller that make sense here."""
    own = (
        Flag(
            "--name", "scheduling", "scheduler_names", "schedule pods with this spec.schedulerName; repeatable", "NAME"
        ),
        Flag("--config", "scheduling", "config", "a SchedulerConfiguration, which names the schedulers itself", "FILE"),
        Flag(
            "--annotation-prefix",
            "scheduling",
            "annotation_prefix",
            "the controller's; default scheduler.cloud.example/",
            "PREFIX",
        ),
        Flag(
            "--bind-timeout",
            "scheduling",
            "bind_timeout",
            "how long a pod's claims may take to be bound before it is tried again, default 10m",
            "DURATION",
        ),
    )
    control = (
        Flag(
            "--control-bind-address",
            "control",
            "bind_address",
            "loopback address for tools that drive it, such as 127.0.0.1:10270; default 0, nowhere",
            "ADDRESS",
        ),
        Flag(
            "--control-token-file",
            "control",
            "token_file",
            "the token they must show, made if it is not there; default a file of the user's own",
            "FILE",
        ),
    )
    election = (
        *(flag for flag in FLAGS["leader election"] if flag.field != "name"),
        Flag("--lease-name", "leader_election", "name", f"default {LEASE}-NAME", "NAME"),
    )
    serving = FLAGS["metrics, probes and logs"]
    cluster = FLAGS["cluster"]
    return {
        "scheduling": own,
        "control port": control,
        "cluster": cluster,
        "leader election": election,
        "metrics, probes and logs": serving,
    }


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `scheduler`."""
    parser = subparsers.add_parser(
        "scheduler",
        usage="%(prog)s (--name NAME | --config FILE) [flags]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add_flags(parser, scheduler_flags())
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = override(SchedulerSettings(), arguments, scheduler_flags())
    refuse_unclear(settings.scheduling)
    # Imported here: the help needs no HTTP.
    from prebinder.scheduler_process import run_scheduler  # noqa: PLC0415

    return run_scheduler(settings)


def refuse_unclear(settings: SchedulingSettings) -> None:
    """Raise UsageError unless it is said in exactly one way whose pods are to be scheduled."""
    if settings.scheduler_names and settings.config:
        raise UsageError("--name and --config exclude each other: the configuration names the schedulers itself")
    if not settings.scheduler_names and not settings.config:
        raise UsageError("whose pods? Give --name NAME, as in spec.schedulerName of the pods, or --config FILE")

"""Units of systemd for the commands that run on a device without anybody who types."""

# What a command needs beside what all of them have.
COMMANDS = {
    "serve": (
        "A page that teaches this device what its camera shows",
        "serve %S/tinytrain/project --host 0.0.0.0 --token-file %S/tinytrain/token",
        "",
    ),
    "watch": (
        "Says what the camera of this device shows",
        "watch %S/tinytrain/state --command "
        "'timeout 30 rpicam-still -n -t 1 --width 640 --height 480 -o -' --every 10",
        "ConditionPathExists=%S/tinytrain/state\n",
    ),
}
NETWORKS = "/opt/tinytrain/current/networks"
UNIT = """\
# Changes of your own: systemctl edit tinytrain-{name}
[Unit]
Description={title}
Documentation=man:systemd.exec(5)
{condition}After=network.target
StartLimitIntervalSec=0

[Service]
# By its own user: the administrator writes nothing where a service may.
WorkingDirectory=%S/tinytrain
ExecStartPre=/bin/sh -c 'mkdir -p cache/backbones && cp -r {networks}/. cache/backbones'
ExecStart=/usr/local/bin/tinytrain {command}
Environment=TINYTRAIN_CACHE=%S/tinytrain/cache
StateDirectory=tinytrain
StateDirectoryMode=0700
UMask=0077
DynamicUser=yes
SupplementaryGroups=video

# A wrong command line (2) stays what it is. A camera that fails (3) may come back, after any time.
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=2
SuccessExitStatus=130
TimeoutStopSec=60

MemoryMax={memory}M
TasksMax=64
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
# Not MemoryDenyWriteExecute: kernels are machine code that the process loads itself.

[Install]
WantedBy=multi-user.target
"""


def unit(name: str, memory: int) -> str:
    """The unit of the command `name`, which gets at most `memory` bytes."""
    title, command, condition = COMMANDS[name]
    return UNIT.format(
        name=name, title=title, command=command, condition=condition, networks=NETWORKS, memory=memory >> 20
    )

"""Every command of `openstack cluster`, in an order that makes sense, and what each has to say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.openstack.clients.step import Step, ask, ended

ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
SHORT: Final = re.compile(r"[0-9a-f]{8}")
NOVA: Final = "os.nova.server-1.0"
DELETION: Final = "senlin.policy.deletion-1.1"

KINDS: Final = (
    Step(words="build info", shows={"api": re.compile(r'\{\s*"revision": "1\.0"\s*\}')}),
    Step(words="service list", code=1, says="403.*not authorized"),
    Step(
        words="profile type list",
        lists=[
            {"name": "os.heat.stack", "version": "1.0"},
            {"name": "os.nova.server", "version": "1.0"},
        ],
    ),
    Step(words=f"profile type show {NOVA}", says=r"(?s)name: os\.nova\.server-1\.0.*  flavor:"),
    Step(words=f"profile type ops {NOVA}", says=r"(?s)reboot:.*type:"),
    Step(words="policy type list -c name -f value", says=r"^senlin\.policy\.deletion$"),
    Step(words=f"policy type show {DELETION}", says="(?s)criteria:.*OLDEST_FIRST"),
)
PROFILES: Final = (
    Step(
        words="profile validate --spec-file {folder}/web.yaml",
        shows={"name": "validated_profile", "type": NOVA, "id": None},
    ),
    Step(words="profile validate --spec-file {folder}/care.yaml", code=1, says="404"),
    Step(
        words="profile create --spec-file {folder}/web.yaml --metadata 'a=b;c=d' web",
        shows={"name": "web", "type": NOVA, "id": ID, "metadata": re.compile('(?s).*"c": "d".*')},
    ),
    Step(
        words="profile create --spec-file {folder}/db.yaml db",
        shows={"name": "db", "type": NOVA},
    ),
    Step(
        words="profile list --sort name:desc",
        lists=[{"name": "web", "type": NOVA, "id": SHORT}, {"name": "db"}],
    ),
    Step(words="profile list --filters name=db --full-id", lists=[{"name": "db", "id": ID}]),
    Step(
        words="profile update --name database --metadata x=y db",
        shows={"name": "database", "metadata": re.compile(r'\{\s*"x": "y"\s*\}')},
    ),
    Step(
        words="profile show database", shows={"name": "database", "updated_at": re.compile(".+Z")}
    ),
    Step(words="profile show nobody", code=1, says="Profile not found: nobody"),
    Step(words="profile delete --force database", says="deleted"),
    Step(words="profile list", lists=[{"name": "web"}]),
)
POLICIES: Final = (
    Step(
        words="policy validate --spec-file {folder}/care.yaml",
        shows={"name": "validated_policy", "type": DELETION},
    ),
    Step(
        words="policy create --spec-file {folder}/care.yaml first",
        shows={"name": "first", "type": DELETION, "id": ID},
    ),
    Step(words="policy update --name care first", shows={"name": "care"}),
    Step(words="policy show care", shows={"name": "care", "type": DELETION}),
    Step(words="policy list", lists=[{"name": "care", "type": DELETION, "id": SHORT}]),
)
CLUSTER: Final = (
    Step(
        words="create --profile web --desired-capacity 1 --max-size 5 --timeout 600"
        " --metadata k=v --config 'node.name.format=web-$1I' site",
        shows={"name": "site", "min_size": 0, "max_size": 5, "timeout": 600, "profile_name": "web"},
        keeps={"cluster": "id"},
    ),
    Step(
        words="show site",
        shows={"status": "ACTIVE", "desired_capacity": 1, "node_ids": ID},
        until=True,
    ),
    Step(words="list --filters 'name=site;status=ACTIVE'", lists=[{"name": "site", "id": SHORT}]),
    Step(words="list --filters name=nobody", lists=[]),
    Step(words="list --sort bogus", code=1, says="Unsupported sort key 'bogus'"),
    Step(
        words="update --name webs --timeout 500 --metadata k=w --wait site",
        shows={"name": "webs", "timeout": 500, "metadata": re.compile(r'\{\s*"k": "w"\s*\}')},
    ),
    Step(words="show site", code=1, says="Cluster not found: site"),
    Step(
        words="members list --full-id webs",
        lists=[{"name": "web-1", "index": 1, "status": "ACTIVE", "physical_id": ID}],
        keeps={"first": "id", "server": "physical_id"},
    ),
    Step(words="collect --path $.details.status webs", lists=[{"attr_value": "ACTIVE"}]),
    Step(
        words="collect --full-id --path physical_id webs",
        lists=[{"node_id": ID, "attr_value": ID}],
    ),
    Step(words="run --script {folder}/web.yaml webs", says="is not attached to any network"),
    ask("check webs"),
    ended(action="CLUSTER_CHECK"),
    ask("recover --check true webs"),
    ended(action="CLUSTER_RECOVER"),
    ask("op --operation reboot --params type=HARD webs"),
    ended(action="CLUSTER_OPERATION"),
    Step(words="op --operation dance webs", says="'dance' is not supported by the profile type"),
)
SIZES: Final = (
    Step(words="expand --count 0 webs", says="Count for scale-out request cannot be 0"),
    ask("expand webs"),
    ended(action="CLUSTER_SCALE_OUT"),
    Step(words="show webs", shows={"desired_capacity": 2, "status": "ACTIVE"}, until=True),
    ask("policy attach --policy care webs"),
    ended(action="CLUSTER_ATTACH_POLICY"),
    Step(
        words="policy binding list --filters enabled=true webs",
        lists=[{"policy_name": "care", "policy_type": DELETION, "is_enabled": True}],
    ),
    ask("policy binding update --policy care --enabled false webs"),
    ended(action="CLUSTER_UPDATE_POLICY"),
    Step(
        words="policy binding show --policy care webs",
        shows={"cluster_name": "webs", "policy_name": "care", "is_enabled": False},
    ),
    Step(words="policy delete --force care", code=1, says="still attached to some clusters"),
    ask("policy detach --policy care webs"),
    ended(action="CLUSTER_DETACH_POLICY"),
    Step(words="policy binding list webs", lists=[], until=True),
    ask("shrink --count 1 webs"),
    ended(action="CLUSTER_SCALE_IN"),
    ask("resize --adjustment 1 --min-size 1 --max-size 4 webs"),
    ended(action="CLUSTER_RESIZE"),
    Step(
        words="show webs",
        shows={"desired_capacity": 2, "min_size": 1, "max_size": 4},
        until=True,
    ),
    Step(words="resize --capacity 9 --strict webs", says=r"target capacity \(9\) is greater"),
    ask("resize --percentage -50 --min-step 1 webs"),
    ended(action="CLUSTER_RESIZE"),
    Step(
        words="members list --full-id webs",
        lists=[{"status": "ACTIVE"}],
        keeps={"first": "id"},
        until=True,
    ),
)
NODES: Final = (
    Step(
        words=f"node adopt --preview --identity {{foreign}} --type {NOVA}",
        shows={"node_preview": re.compile("(?s).*lab.tiny.*")},
    ),
    Step(
        words=f"node adopt --identity {{foreign}} --type {NOVA} --name taken --role r",
        shows={"name": "taken", "status": "ACTIVE", "role": "r", "profile_name": "prof-taken"},
    ),
    Step(
        words="node create --profile web --role r --metadata a=b lone",
        shows={"name": "lone", "role": "r", "cluster_id": "", "index": -1, "tainted": False},
    ),
    Step(words="node show lone", shows={"status": "ACTIVE", "physical_id": ID}, until=True),
    Step(
        words="node show --details lone",
        shows={"name": "lone", "details": re.compile("(?s).*ACTIVE.*")},
    ),
    Step(
        words="node update --name single --role s --metadata c=d --tainted true lone",
        shows={"id": ID},
    ),
    Step(words="node show single", shows={"role": "s", "tainted": True}, until=True),
    ask("node check single"),
    ended(action="NODE_CHECK"),
    ask("node recover --check true single"),
    ended(action="NODE_RECOVER"),
    # The command itself fails after it has done its work: it forgets to return a table.
    ask("node op --operation stop single", code=1),
    ended(action="NODE_OPERATION"),
    ask("node op --operation start single", code=1),
    ended(action="NODE_OPERATION"),
    ask("members add --nodes single webs"),
    ended(action="CLUSTER_ADD_NODES"),
    Step(
        words="node list --cluster webs --sort index:desc",
        lists=[{"name": "single", "cluster_id": SHORT, "tainted": True}, {"cluster_id": SHORT}],
        until=True,
    ),
    ask("members del --nodes single webs"),
    ended(action="CLUSTER_DEL_NODES"),
    ask("members replace --nodes {first}=single webs"),
    ended(action="CLUSTER_REPLACE_NODES"),
    Step(words="members list webs", lists=[{"name": "single"}], until=True),
    ask("node delete --force {first}"),
    ended(action="NODE_DELETE"),
    Step(words="node show {first}", code=1, says="Node not found", until=True),
)
RECEIVERS: Final = (
    Step(
        words="receiver create --cluster webs --action CLUSTER_SCALE_OUT --params count=1 hook",
        shows={"type": "webhook", "channel": re.compile(r"(?s).*/v1/webhooks/.*/trigger\?V=2.*")},
    ),
    Step(
        words="receiver update --name grow --params count=2 hook",
        shows={"name": "grow", "params": re.compile(r'\{\s*"count": "2"\s*\}')},
    ),
    Step(words="receiver show grow", shows={"name": "grow", "action": "CLUSTER_SCALE_OUT"}),
    Step(words="receiver list", lists=[{"name": "grow", "type": "webhook", "cluster_id": SHORT}]),
    Step(words="receiver create --type message post", code=1, says="they need a Zaqar queue"),
    Step(words="receiver delete --force grow", says="deleted"),
    Step(words="receiver list", lists=[]),
)
RECORDS: Final = (
    Step(
        words="action list --filters 'action=CLUSTER_CREATE' --full-id",
        lists=[{"name": re.compile("cluster_create_.*"), "status": "SUCCEEDED", "target_id": ID}],
        keeps={"action": "id"},
    ),
    Step(words="action update --status CANCELLED {action}", code=1, says="409"),
    Step(
        words="event list --filters 'oid={cluster};action=CLUSTER_CREATE' --full-id",
        lists=[{"status": "start", "obj_type": "CLUSTER"}, {"status": "end", "level": "INFO"}],
        keeps={"event": "id"},
        until=True,
    ),
    Step(words="event show {event}", shows={"action": "CLUSTER_CREATE", "obj_name": "site"}),
)
ENDING: Final = (
    Step(words="delete --force nobody", says="nobody: failed due to .*404"),
    Step(words="delete --force --wait webs", says="webs: accepted by action"),
    Step(words="list", lists=[]),
    Step(words="policy delete --force care", says="deleted"),
)
STORY: Final[Sequence[Step]] = (
    *KINDS,
    *PROFILES,
    *POLICIES,
    *CLUSTER,
    *SIZES,
    *NODES,
    *RECEIVERS,
    *RECORDS,
    *ENDING,
)
CANCELLED: Final[Sequence[Step]] = (
    Step(words="create --profile web --desired-capacity 1 never", shows={"name": "never"}),
    Step(
        words="action list --full-id --filters 'action=CLUSTER_CREATE;status=WAITING'",
        lists=[{"action": "CLUSTER_CREATE"}],
        keeps={"action": "id"},
        until=True,
    ),
    Step(words="action update --status CANCELLED {action}", shows={"action": "CLUSTER_CREATE"}),
)

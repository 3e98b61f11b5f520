"""The keys of the table.

The partition key of a row that belongs to a project begins with the project and the mode, so that a row of another
project or mode cannot be addressed: `P#{project}#{test|live}#{kind}`. The sort key is the public id, so the base table
lists in creation order.

| row                        | pk                                     | sk               | indexes |
|----------------------------|----------------------------------------|------------------|---------|
| customer                   | `P#..#customer`                        | `cust_...`       | f1-f3 |
| appointment                | `P#..#appointment`                     | `appt_...`       | f1-f4, t0-t4 |
| deleted customer           | `P#..#deleted_customer`                | `cust_...`       | |
| deleted appointment        | `P#..#deleted_appointment`             | `appt_...`       | f3 |
| search row of a customer or an appointment | `P#..#{kind}#word#{hash of first letter}` | words`#`id | |
| search row of a customer   | `P#..#customer#phone#{hash of last 3 digits}` | digits in reverse`#`id | |
| session                    | `P#..#session`                         | `sess_...`       | f1-f4, due |
| transcript of a session    | `P#..#session#{sess_...}`              | `transcript`     | |
| consent of a phone         | `P#..#consent#{hash of phone}`         | `consent`        | due |
| conversation               | `P#..#conversation`                    | `conv_...`       | f1-f4, t0 |
| message                    | `P#..#conversation#{conv_...}`         | `msg_...`        | due, with its turn |
| thread of a conversation   | `P#..#thread#{sha256 of external_id}`  | `thread`         | |
| usage in a month           | `P#..#usage#{YYYY-MM}`                 | `msg_...`, `sess_...`, `erased` | |
| erasure of a customer      | `P#..#erasure`                         | `cust_...`       | |
| key of opt-outs            | `P#..#opt_out`                         | `key`            | |
| opt-out of a phone         | `P#..#opt_out`                         | `phone#{keyed hash of phone}` | |
| event                      | `P#..#event`                           | `evt_...`        | f1-f2 |
| delivery of an event       | `P#..#event#{evt_...}`                 | `whd_...`        | due, f1-f2 |
| replay of failed deliveries | `P#..#replay`                         | `whk_...`        | due |
| webhook endpoint           | `P#..#webhook_endpoint`                | `whk_...`        | |
| deleted webhook endpoint   | `P#..#deleted_webhook_endpoint`        | `whk_...`        | |
| count of webhook endpoints | `P#..#count`                           | `webhook_endpoint` | |
| count of live calls        | `P#..#count`                           | `call`           | |
| slot of a live message     | `P#..#slot`                            | 4-digit number   | |
| idempotency record         | `P#..#idempotency#{sha256 of key}`     | `record`         | |
| contact of a live call     | `CONTACT#{contact id}`                 | `contact`        | |
| live calls of the stage    | `CARRIER`                              | see `shared/calls/capacity.py` | |
| consent requests to a phone | `ASKED#{hash of phone}`               | pk of the consent | |
| settings of the agent      | `P#..#agent_settings`                  | `agent_settings` | |
| project                    | `PROJECTS`                             | 10-digit number  | |
| run of the canary          | `CANARY`                               | sha256 of its token | |
| API key                    | `KEY#{sha256 of the key}`              | `key`            | |
| API key of a project       | `P#{project}#keys`                     | `key_...`        | |
| member of a project        | `P#{project}#members`                  | hash of e-mail   | |
| invitation to a project    | `INVITED#{hash of e-mail}`             | 10-digit number  | |
| project of a person        | `PERSON#{hash of issuer and subject}`  | 10-digit number  | |
| end of a person's sessions | `PERSON#{hash of issuer and subject}`  | `sessions`       | |
| entry of the audit trail   | `P#{project}#audit`                    | `aud_...`        | f1-f3 |
| request of the last day    | `P#..#request`                         | `req_...`        | f1 |
| submitted form             | `P#{project}#form#{hash of its token}` | `form`           | |
| session of the admin pages | `ADMIN_SESSION#{hash of its token}`    | `session`        | |
| attempt to sign in         | `SIGN_IN#{hash of its state}`          | `attempt`        | |
| sign-in link               | `SIGN_IN_LINK#{hash of its token}`     | `link`           | |

The hash of a phone or an e-mail address is the first 32 hexadecimal digits of its SHA-256. The hash of a value in an
index partition is the first half of its SHA-256 in base64 (`Scope.index`). The other hashes are whole
SHA-256 digests. `shared/admin` has the rows of the admin pages.

Attributes: `doc` is the public object as JSON text, `v` the version of a row, which every write that changes `doc`
increases by 1 (of a counter, every write), `w0`-`w7` the writers of its last versions and `writer` that of a row
without a version (`shared/store/table`), `cause` the API request that caused the last write, `kind` the row's kind, and
`expires_at` (Unix seconds) the time to live. The index partitions `f1`-`f4` are scope, kind, field and hashed value,
sorted by id; `t1`-`t4` are the same, sorted by `sort_time` (time and id), and `t0` is scope and kind. A conversation
has t0 only while it waits for a person, with the time of the handoff. Client text enters an index key only as a hash.
f1 of a delivery is sparse: only deliveries that wait for a retry, or have failed and were not retried, have it. So is
that of a request, which only those have whose response was an error.
Rows with a scheduled step have the attributes of `shared/tasks/tasks.py`.
Deleting a customer or an appointment moves its row to a partition that lists do not read; `before` is its document
before the deletion, for the event. Lists do not read its partition of f3 either, by which the deleted appointments of
a customer are found for its erasure. The other attributes are declared with their resources (`CustomerRow`,
`SessionRow`, ...).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from shared.core import clock, settings
from shared.core.limits import MAX_DUE_SHARDS


@dataclass(frozen=True)
class Scope:
    """A project and a mode. Every row of a resource belongs to one."""

    project_id: int
    livemode: bool

    @property
    def is_simulated(self) -> bool:
        """Whether its calls and conversations must not reach a carrier or a model that costs money (promises 10).

        They are simulated in test mode, and on the local runner in live mode too.
        """
        return not self.livemode or settings.simulates_live()

    def pk(self, *parts: str) -> str:
        """The partition key of a kind of rows in this project and mode."""
        return "#".join(("P", str(self.project_id), "live" if self.livemode else "test", *parts))

    def index(self, kind: str, field: str, value: str) -> str:
        """The index partition of the rows of a kind whose `field` has this value.

        A row has up to eight of these, so 128 bits of the hash are written in base64, which is short: with hexadecimal
        digits, the rows of projects with long numbers would exceed 1 KB, and cost another write unit.
        """
        digest = hashlib.sha256(value.encode()).digest()[:16]
        return self.pk(kind, field, base64.urlsafe_b64encode(digest).decode().rstrip("="))


def scope_of(pk: str) -> Scope:
    """The project and mode of a partition key."""
    _, project, mode, *_ = pk.split("#")
    return Scope(int(project), mode == "live")


def due_shard(sk: str) -> str:
    """The partition of the due index for a row. Shards distribute the writes to the index."""
    return _shard(int(hashlib.sha256(sk.encode()).hexdigest(), 16) % settings.due_shards())


def due_shards() -> list[str]:
    """The partitions of the due index. Their number is a setting of the stage."""
    return [_shard(number) for number in range(settings.due_shards())]


def former_due_shards() -> list[str]:
    """Partitions that contain rows only if the stage's number of shards was once higher."""
    return [_shard(number) for number in range(settings.due_shards(), MAX_DUE_SHARDS)]


def _shard(number: int) -> str:
    return f"due#{number}"


def due(instant: clock.Instant) -> str:
    """An instant as a sort key of the due index."""
    return f"{instant:015d}"

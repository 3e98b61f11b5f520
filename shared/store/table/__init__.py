"""The table. Every request to DynamoDB goes through this package.

encoding    rows in DynamoDB's JSON, with long documents compressed
reads       get, query and what belongs to them. Strongly consistent, except those of an index
conditions  what must be true of a row when it is written
writes      one operation, or several as one transaction

ConditionFailed(op, old)    the condition of an operation failed; nothing was written
Contended(op)               transaction conflicts on the row of an operation; nothing was written
Unavailable                 DynamoDB throttled the request or did not respond; if `uncertain`, it may have written
"""

from shared.store.table.conditions import ABSENT as ABSENT
from shared.store.table.conditions import ALWAYS as ALWAYS
from shared.store.table.conditions import PRESENT as PRESENT
from shared.store.table.conditions import Condition as Condition
from shared.store.table.conditions import above as above
from shared.store.table.conditions import at_most as at_most
from shared.store.table.conditions import below as below
from shared.store.table.conditions import equals as equals
from shared.store.table.conditions import has as has
from shared.store.table.conditions import unchanged as unchanged
from shared.store.table.encoding import DOCUMENTS as DOCUMENTS
from shared.store.table.encoding import Attributes as Attributes
from shared.store.table.encoding import Key as Key
from shared.store.table.encoding import Row as Row
from shared.store.table.encoding import Value as Value
from shared.store.table.encoding import decode as decode
from shared.store.table.encoding import encode as encode
from shared.store.table.reads import ReadAhead as ReadAhead
from shared.store.table.reads import Rows as Rows
from shared.store.table.reads import SharedReads as SharedReads
from shared.store.table.reads import absent_or_expired as absent_or_expired
from shared.store.table.reads import expiry as expiry
from shared.store.table.reads import get as get
from shared.store.table.reads import get_many as get_many
from shared.store.table.reads import is_expired as is_expired
from shared.store.table.reads import query as query
from shared.store.table.reads import rows_of as rows_of
from shared.store.table.writes import WRITERS as WRITERS
from shared.store.table.writes import Check as Check
from shared.store.table.writes import ConditionFailed as ConditionFailed
from shared.store.table.writes import Contended as Contended
from shared.store.table.writes import Delete as Delete
from shared.store.table.writes import Put as Put
from shared.store.table.writes import Refusal as Refusal
from shared.store.table.writes import Update as Update
from shared.store.table.writes import Write as Write
from shared.store.table.writes import versioned_write as versioned_write
from shared.store.table.writes import write as write
from shared.store.table.writes import write_and_get as write_and_get

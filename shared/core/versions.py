"""The dated revisions of API v1 (specification, "Versioning"). All so far are additive and render alike."""

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22")
NEWEST = REVISIONS[-1]

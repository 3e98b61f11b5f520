"""The people who use the admin pages: members of projects, sign-in, sessions and the audit trail."""

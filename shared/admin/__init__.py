"""The people who use the admin pages, and the audit trail.

members           who may use the pages of a project, and with which role
sign_in           the attempt to sign in at a provider, by its protocol (`oidc`) or by a link
sign_in_sessions  from sign-in to sign-out
user_pool         invitations and second factors, on a stage with a user pool of its own
audit             the audit trail: who changed what
audited           changes with their entry, which both the pages and the operator make
"""

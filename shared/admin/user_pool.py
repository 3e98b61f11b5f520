"""Users of the stack's own user pool, for members who sign in there."""

from __future__ import annotations

from shared.admin import audit
from shared.admin.audit import Actor
from shared.admin.members import Member
from shared.aws import services
from shared.aws.error_codes import ErrorCode
from shared.core import settings
from shared.store import table


class NotPossible(Exception):
    """The user pool refuses what is asked of it. The message says why and what to do."""


def invite(email: str) -> bool:
    """Create a user for a new member; Cognito sends them an e-mail with a password.

    False if the stage has no user pool, or the user exists.
    """
    if not settings.user_pool_id():
        return False
    try:
        services.call(
            services.cognito().admin_create_user,
            UserPoolId=settings.user_pool_id(),
            Username=email,
            # The password reaches the person only if the address is theirs.
            UserAttributes=[{"Name": "email", "Value": email}, {"Name": "email_verified", "Value": "true"}],
            DesiredDeliveryMediums=["EMAIL"],
        )
    except services.AwsError as error:
        if error.code != ErrorCode.USER_EXISTS:
            raise
        return False
    return True


def send_again(member: Member, actor: Actor) -> None:
    """Send a member the invitation again, with a new password. A user who was deleted in the pool is created again.

    Raises NotPossible for a person who has chosen a password already ("AdminCreateUser", MessageAction:
    docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminCreateUser.html).
    """
    _note(member, actor, "member.invitation_requested")
    try:
        services.call(
            services.cognito().admin_create_user,
            UserPoolId=settings.user_pool_id(),
            Username=member.email,
            MessageAction="RESEND",
            DesiredDeliveryMediums=["EMAIL"],
        )
    except services.AwsError as error:
        if error.code == ErrorCode.USER_NOT_FOUND:
            invite(member.email)
        elif error.code == ErrorCode.USER_STATE:
            raise NotPossible(
                "This person has a password of their own. Who forgot it can get a new one on the sign-in page."
            ) from None
        else:
            raise


def reset_second_factor(member: Member, actor: Actor) -> None:
    """Remove a member's authenticator app, so that the next sign-in asks for another one, after the password.

    Raises NotPossible for a person who has none ("AdminDeleteSoftwareToken":
    docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminDeleteSoftwareToken.html). A user who
    was deleted and created again instead would have another subject, and no longer be the member.
    """
    _note(member, actor, "member.second_factor_reset_requested")
    try:
        services.call(
            services.cognito().admin_delete_software_token,
            UserPoolId=settings.user_pool_id(),
            Username=member.email,
        )
    except services.AwsError as error:
        if error.code not in (ErrorCode.USER_NOT_FOUND, ErrorCode.USER_NOT_CONFIRMED):
            raise
        raise NotPossible("This person has not signed in yet. Send the invitation again instead.") from None


def _note(member: Member, actor: Actor, action: str) -> None:
    """Write down what is requested, before it is: nothing happens to a user without an entry of the audit trail."""
    table.write([audit.entry(member.project_id, actor, action, member.email)])

"""Users of the stack's own user pool, for members who sign in there."""

from __future__ import annotations

import os

from shared.aws import services
from shared.aws.error_codes import ErrorCode


def invite(email: str) -> bool:
    """Create a user for a new member; Cognito sends them an e-mail with a password.

    False if the stage has no user pool, or the user exists.
    """
    pool = os.environ.get("USER_POOL_ID")
    if not pool:
        return False
    try:
        services.call(
            services.cognito().admin_create_user,
            UserPoolId=pool,
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

"""The Cognito user pool in which the people who use the admin pages sign in, if the stage has no other provider.

The texts of its e-mails are Cognito's own.
"""

from __future__ import annotations

from aws_cdk import Duration, Fn, Stack
from aws_cdk import aws_cognito as cognito

from infra.stage import Stage as Settings

_TOKENS_LAST = Duration.minutes(5)


def user_pool(stack: Stack, stage: Settings) -> cognito.UserPool:
    """Create a user pool. Nobody can register: the owners of projects and `infra.manage members add` create users."""
    pool = cognito.UserPool(
        stack,
        "People",
        self_sign_up_enabled=False,
        sign_in_aliases=cognito.SignInAliases(email=True),
        sign_in_case_sensitive=False,
        account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
        mfa=cognito.Mfa.REQUIRED,
        mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
        password_policy=cognito.PasswordPolicy(
            min_length=12,
            require_digits=True,
            require_lowercase=True,
            require_uppercase=True,
            require_symbols=True,
            temp_password_validity=Duration.days(7),
        ),
        # The plan Plus watches for what the second factor already prevents.
        feature_plan=cognito.FeaturePlan.LITE,
        deletion_protection=stage.keep_data,
        removal_policy=stage.removal,
    )
    # A prefix is unique in a region, so it contains a part of the stack's own unique id.
    instance = Fn.select(0, Fn.split("-", Fn.select(2, Fn.split("/", stack.stack_id))))
    prefix = f"{stack.stack_name.lower()}-{instance}"
    pool.add_domain("Domain", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=prefix))
    return pool


def arn(pool: cognito.UserPool) -> str:
    """The pool's ARN, composed of its id: LocalStack has no user pools, and their ARN attribute is not an ARN there."""
    return Stack.of(pool).format_arn(service="cognito-idp", resource="userpool", resource_name=pool.user_pool_id)


def client(pool: cognito.UserPool, *, redirect_uri: str, signed_out_uri: str) -> str:
    """Create the admin pages' client of the pool. Returns its id.

    After a sign-in, the pool sends the browser to `redirect_uri`, after a sign-out to `signed_out_uri`.

    It has no secret, because Cognito generates it, and CloudFormation could pass it on only in plain text. PKCE binds a
    code to its attempt.
    """
    made = pool.add_client(
        "AdminPages",
        generate_secret=False,
        prevent_user_existence_errors=True,
        supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
        o_auth=cognito.OAuthSettings(
            flows=cognito.OAuthFlows(authorization_code_grant=True),
            scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.EMAIL],
            callback_urls=[redirect_uri],
            logout_urls=[signed_out_uri],
        ),
        # The admin pages have their own sessions. They use the ID token once.
        id_token_validity=_TOKENS_LAST,
        access_token_validity=_TOKENS_LAST,
        refresh_token_validity=Duration.hours(1),
    )
    return made.user_pool_client_id

// A real OpenID Connect provider (npm oidc-provider) on loopback. Its one argument is a JSON object: port, jwks, clients.
// Whoever signs in as NAME has the e-mail address NAME; it is verified unless NAME begins with "unverified".
import { createServer } from "node:http";
import Provider from "oidc-provider";

const { port, jwks, clients } = JSON.parse(process.argv[2]);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  jwks,
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["only for tests"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: `subject of ${id}`, email: id, email_verified: !id.startsWith("unverified") }),
  }),
});
createServer(provider.callback()).listen(port, "127.0.0.1", () => console.log("ready"));
process.stdin.resume().on("end", () => process.exit());

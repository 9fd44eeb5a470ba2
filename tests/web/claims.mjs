// Claims that several tests make.
import assert from "node:assert/strict";

export const EtnaErrorOf = (kind, message) => (error) => {
  assert.equal(error.name, "EtnaError");
  assert.equal(error.kind, kind);
  assert.match(error.message, message);
  return true;
};

export function close_to(got, wanted, tolerance) {
  assert.equal(got.length, wanted.length);
  wanted.forEach((value, i) => assert.ok(Math.abs(got[i] - value) <= tolerance, `${got[i]} is not near ${value}`));
}

// Validates lines {"schema": ..., "answer": "..."} with ajv (draft 2020-12, with formats); fails if one does not.
import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.env.ETNA_AJV + '/');
const { default: Ajv } = require('ajv/dist/2020');
const { default: addFormats } = require('ajv-formats');

const ajv = new Ajv({ strict: false, validateFormats: true });
addFormats(ajv);
let validated = 0, failed = 0, schema = '', validate;
const fail = (line, why) => {
  ++failed;
  if (failed <= 20) console.error(`does not validate: ${line}\n  ${why}`);
};
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const one = JSON.parse(line);
  try {
    const text = JSON.stringify(one.schema);
    if (text !== schema) {
      validate = ajv.compile(one.schema);
      ajv.removeSchema(one.schema);
      schema = text;
    }
    if (validate(JSON.parse(one.answer))) ++validated;
    else fail(line, JSON.stringify(validate.errors));
  } catch (error) {
    fail(line, String(error));
  }
}
console.log(`ajv: ${validated} answers validate, ${failed} do not`);
process.exit(failed === 0 && validated > 0 ? 0 : 1);

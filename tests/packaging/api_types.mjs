// Walks manifests along the Kubernetes API's own types, as @kubernetes/client-node carries them (made from the API's OpenAPI
// document): an unknown field, a value of the wrong type or an unknown kind is a fault. It knows neither enums nor ranges nor
// required fields; manifests.py does.
//
//   node api_types.mjs NODE_MODULES FILE...
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import {resolve} from "node:path";

const [folder, ...files] = process.argv.slice(2);
const require = createRequire(pathToFileURL(resolve(folder, "x.js")));
const base = `${resolve(folder)}/@kubernetes/client-node/dist/gen/models`;
// The package's main entry wants a newer Node than Debian's; its types alone don't.
const models = await import(pathToFileURL(`${base}/all.js`).href);
const {parseAllDocuments} = require("yaml");
// Kinds of others, which the API's types don't hold.
const foreign = new Set(["monitoring.coreos.com/v1 PodMonitor"]);

const plain = {
	string: value => typeof value === "string",
	number: value => typeof value === "number",
	boolean: value => typeof value === "boolean",
	IntOrString: value => typeof value === "string" || Number.isInteger(value),
	any: () => true,
	object: value => value !== null && typeof value === "object",
	Date: value => typeof value === "string",
};

function walk(value, type, at, faults) {
	const list = /^Array<(.*)>$/.exec(type);
	const map = /^\{ \[key: string\]: (.*); \}$/.exec(type);
	if (list) {
		if (!Array.isArray(value))
			return faults.push(`${at}: is no list`);
		return value.forEach((item, i) => walk(item, list[1], `${at}[${i}]`, faults));
	}
	if (map) {
		if (value === null || typeof value !== "object" || Array.isArray(value))
			return faults.push(`${at}: is no map`);
		return Object.entries(value).forEach(([key, item]) => walk(item, map[1], `${at}.${key}`, faults));
	}
	if (plain[type]) {
		if (!plain[type](value))
			faults.push(`${at}: ${JSON.stringify(value)} is no ${type}`);
		return;
	}
	const model = models[type];
	if (!model)
		return faults.push(`${at}: no type ${type}`);
	if (value === null || typeof value !== "object" || Array.isArray(value))
		return faults.push(`${at}: is no ${type}`);
	const fields = new Map(model.getAttributeTypeMap().map(field => [field.baseName, field.type]));
	for (const [key, item] of Object.entries(value)) {
		if (!fields.has(key))
			faults.push(`${at}.${key}: no such field of ${type}`);
		else
			walk(item, fields.get(key), `${at}.${key}`, faults);
	}
}

function modelOf({apiVersion = "", kind = ""}) {
	const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["core", apiVersion];
	const name = version[0]?.toUpperCase() + version.slice(1) + kind;
	const groups = {V1Deployment: "apps", V1ConfigMap: "core", V1NetworkPolicy: "networking.k8s.io"};
	return groups[name] === group ? name : null;
}

let code = 0;
for (const file of files) {
	const faults = [];
	for (const document of parseAllDocuments(readFileSync(file, "utf8"))) {
		faults.push(...document.errors.map(error => error.message.split("\n")[0]));
		const value = document.errors.length ? null : document.toJS();
		if (value === null || foreign.has(`${value.apiVersion} ${value.kind}`))
			continue;
		const type = modelOf(value);
		if (type)
			walk(value, type, value.kind, faults);
		else
			faults.push(`${value.apiVersion} ${value.kind}: no such kind here`);
	}
	for (const fault of faults) {
		console.log(`${file}: ${fault}`);
		code = 1;
	}
}
process.exit(code);

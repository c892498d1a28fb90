// Publishes one item by @fanoutio/grip: publish.mjs CONTROL_URI
import { Publisher } from '@fanoutio/grip';

const publisher = new Publisher({ control_uri: process.argv[2] });
await publisher.publishHttpStream('a', 'from node\n');
console.log('published');

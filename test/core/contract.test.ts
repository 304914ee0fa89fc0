// The addon that this process loads keeps the contract.
import { loadAddon } from '../../src/core/loader.js';
import { contractSuite } from './contract/suite.js';

contractSuite('the addon that the loader finds', loadAddon);

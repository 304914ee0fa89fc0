// Texts through an engine are right, with all other features of the engine.
import { ON_HOST } from '../engine-texts.js';
import { itGivesUnpagedTexts } from './engine-texts.js';

itGivesUnpagedTexts(ON_HOST);

import { ON_HOST } from '../engine-texts.js';
import { itGivesUnpagedTexts } from './engine-texts.js';

itGivesUnpagedTexts(ON_HOST);

import { describePlantedGroups } from './planted.js';

describePlantedGroups();
